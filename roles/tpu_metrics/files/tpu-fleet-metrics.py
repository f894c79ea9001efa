"""Write the state of this machine's runs for Prometheus, as node exporter text files.

Each look replaces one file as a whole, so that no reader gets half of one.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

# In the folder of this program, which -I leaves out.
sys.path.append(str(Path(__file__).resolve().parent))

from tpu_fleet_run_files import chip_holders, chip_monitor
from tpu_fleet_run_files.run_states import STATES
from tpu_fleet_run_files.runs import RunFiles, newest, read_json

# What the run agent writes, and the metric for it.
NUMBERS = (
    ("attempt", "tpu_fleet_run_attempt", "Number of the attempt, from 1."),
    ("failures", "tpu_fleet_run_failures", "Attempts that the program itself ended in error."),
    ("restarts", "tpu_fleet_run_restarts", "Attempts after the first one."),
    ("exit_code", "tpu_fleet_run_exit_code", "Exit code of the last attempt that ended."),
    ("step", "tpu_fleet_run_step", "Last step that the program reported."),
    ("tokens_per_second", "tpu_fleet_run_tokens_per_second", "As the program reported."),
    ("mfu", "tpu_fleet_run_mfu_ratio", "Model FLOPs utilisation, as the program reported."),
)
# The same of the newest checkpoint in a bucket, by its keys in the status's `bucket`.
CHECKPOINT = (
    ("step", "tpu_fleet_run_checkpoint_step", "Step of the newest checkpoint in a bucket."),
    ("bytes", "tpu_fleet_run_checkpoint_bytes", "Bytes of the newest checkpoint in a bucket."),
)
# What the runtime reports of chips, by the name of the reader.
CHIPS = (
    (chip_monitor.DUTY_CYCLE, "tpu_fleet_chip_duty_cycle_percent", "Share of the time at work."),
    (chip_monitor.USED, "tpu_fleet_chip_memory_used_bytes", "Bytes of HBM in use."),
    (chip_monitor.TOTAL, "tpu_fleet_chip_memory_bytes", "Bytes of HBM."),
    (chip_monitor.IDLE, "tpu_fleet_chip_idle_seconds", "Seconds since the core did something."),
)
MOST_OPEN_FILES = 100_000
# Seconds of the last attempt, each with the label of what they are for.
TIMES = (
    ("start_parts", "tpu_fleet_run_start_seconds", "Seconds until the first step.", "part"),
    ("inside", "tpu_fleet_run_attempt_seconds", "Seconds of the attempt by their kind.", "kind"),
)


def escaped(value):
    """Write a value between quotes."""
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Page:
    """Metrics in Prometheus' own words, each family once with its help."""

    def __init__(self, labels):
        self.labels = labels
        self.families = {}

    def add(self, name, help_text, value, **labels):
        """Add one value."""
        every = sorted({**self.labels, **labels}.items())
        inner = ",".join(f'{key}="{escaped(text)}"' for key, text in every)
        lines = self.families.setdefault(name, (help_text, []))[1]
        # Not two braces in a row: Jinja, which brings this file, would read them.
        lines.append(name + "{" + inner + "} " + str(value))

    def text(self):
        """Return the page."""
        parts = []
        for name, (help_text, lines) in sorted(self.families.items()):
            parts += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *lines]
        return "\n".join(parts) + "\n"


def number_of(value):
    """Return a number, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value


def add_runs(page, folder, spare):
    """Add what the run agent wrote of each run: in spare while the disk is full."""
    files = RunFiles()
    files.states, files.spare = Path(folder, "runs"), Path(spare)
    for folder_name in files.listed():
        places = [runs / folder_name / "status.json" for runs in (files.states, files.spare)]
        paths = [path for path in places if path.exists()]
        if not paths:
            continue
        path, status = newest(paths)
        name = status.get("run") or folder_name
        page.add(
            "tpu_fleet_run_status_readable",
            "Whether the status of the run can be read.",
            int(bool(status)),
            run=name,
        )
        if not status:
            continue
        state = str(status.get("state"))
        for known in sorted({*STATES, state}):
            page.add(
                "tpu_fleet_run_state",
                "1 for the state in which the run is, 0 for the others.",
                int(known == state),
                run=name,
                state=known,
            )
        values = dict(status)
        attempt = number_of(status.get("attempt"))
        if number_of(status.get("restarts")) is None and attempt is not None:
            values["restarts"] = max(0, attempt - 1)
        for key, metric, help_text in NUMBERS:
            value = number_of(values.get(key))
            if value is not None:
                page.add(metric, help_text, value, run=name)
        add_checkpoint(page, name, status)
        add_times(page, name, status)
        page.add(
            "tpu_fleet_run_loss_trouble",
            "1 while the loss of the run is not a number, or has exploded.",
            int(bool(status.get("loss_trouble"))),
            run=name,
        )
        page.add(
            "tpu_fleet_run_status_age_seconds",
            "Seconds since the run agent last wrote.",
            round(max(0.0, time.time() - path.stat().st_mtime), 1),
            run=name,
        )


def add_checkpoint(page, run, status):
    """Add when the newest checkpoint was saved; nothing while there is none."""
    saved = number_of(status.get("saved_at"))
    if saved:
        text = "When the newest checkpoint became whole."
        page.add("tpu_fleet_run_checkpoint_timestamp_seconds", text, saved, run=run)
    bucket = status.get("bucket")
    for key, metric, help_text in CHECKPOINT:
        value = number_of(bucket.get(key)) if isinstance(bucket, dict) else None
        if saved and value is not None:
            page.add(metric, help_text, value, run=run)


def add_times(page, run, status):
    """Add where the time of the last attempt goes, as far as its agent knows."""
    for key, metric, help_text, label in TIMES:
        found = status.get(key)
        for name, value in sorted(found.items()) if isinstance(found, dict) else ():
            if number_of(value) is not None:
                page.add(metric, help_text, value, run=run, **{label: name})


def add_machine(page, folder, disks):
    """Add whether the machine is ready, and its disks."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        ready = Path(folder, "ready").read_text(encoding="ascii").strip()
    except OSError:
        ready = ""
    text = "1 when the machine was configured in this boot."
    page.add("tpu_fleet_ready", text, int(ready == boot))
    for disk in disks:
        try:
            found = os.statvfs(disk)
        except OSError:
            continue
        free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        page.add("tpu_fleet_disk_free_bytes", "Bytes that users may still write.", free, path=disk)
        page.add("tpu_fleet_disk_size_bytes", "Bytes of the file system.", size, path=disk)


def add_venvs(page, folder):
    """Add the libtpu version of each environment: tpu-info and it go together."""
    for path in sorted(Path(folder, "venvs").glob("*.json")):
        packages = read_json(path).get("packages")
        libtpu = packages.get("libtpu") if isinstance(packages, dict) else None
        if libtpu:
            text = "1 for the version of libtpu in each environment."
            page.add("tpu_fleet_libtpu_info", text, 1, venv=path.stem, version=libtpu)


def add_chips(page, root, port):
    """Add the chips, and what the runtime reports of them while a program holds them.

    The port counts only if a user who holds a chip has it, or root.
    """
    chips = chip_holders.devices(root)
    page.add("tpu_fleet_chips", "TPU chips of this machine.", len(chips))
    if not chips:
        return
    holders, _left = chip_holders.holders(root, MOST_OPEN_FILES)
    found = chip_monitor.figures({0, *(one.uid for one in holders)}, port)
    text = "1 while a program reports on the chips."
    page.add("tpu_fleet_chips_readable", text, int(bool(found)))
    for key, name, help_text in CHIPS:
        for device, value in sorted(found.get(key, {}).items()):
            page.add(name, help_text, value, device=device)


def write(path, text):
    """Replace the file as a whole; the exporter is another user."""
    target = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=".runs.", dir=str(target.parent))
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        os.fchmod(stream.fileno(), 0o644)
    Path(name).replace(target)


def main(config_path):
    """Look once."""
    config = read_json(Path(config_path))
    folder = config.get("state_dir", "/var/lib/tpu-fleet")
    page = Page(config.get("labels", {}))
    add_runs(page, folder, config.get("spare_dir", "/run/tpu-fleet/runs"))
    add_machine(page, folder, config.get("disks", ["/"]))
    add_venvs(page, folder)
    port = int(config.get("chips_port", chip_monitor.PORT))
    add_chips(page, Path(config.get("root", "/")), port)
    page.add("tpu_fleet_metrics_timestamp_seconds", "When this was written.", int(time.time()))
    write(config["output"], page.text())


if __name__ == "__main__":
    main(sys.argv[1])
