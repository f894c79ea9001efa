# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of Python, venvs and runs on a machine. No I/O.

Runs on Python 3.8.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Tuple

from .._core.durations import long
from .._host.run_states import RUNNING, SUCCEEDED, loss_said
from .check import FAIL, WARN, WORKER, Case, Check, Facts, Hit, fine, hit, listed, skipped

# With an older Python, pip silently installs an old JAX.
JAX_PYTHON = (3, 10)


def version(text: str) -> Tuple[int, ...]:
    """Parse a version's numbers."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _python(facts: Facts) -> Iterator[Hit]:
    found = facts["host"]["python"]
    if version(found) < JAX_PYTHON:
        yield hit("old", version=found)
    else:
        yield fine(f"the system's is {found}")


def _venvs(facts: Facts) -> Iterator[Hit]:
    if not facts["venvs"]:
        yield skipped("no venv is declared or recorded here")
    for venv in facts["venvs"]:
        yield from _venv(venv, facts["host"]["name"])


def _venv(venv: Mapping[str, Any], host: str) -> Iterator[Hit]:
    name = venv["name"]
    about = {"subject": name, "name": name, "path": venv["path"], "host": host}
    if venv["timeout"]:
        yield hit("slow", seconds=venv["timeout"], **about)
    elif not venv["there"]:
        yield hit("missing", **about)
    elif venv["error"]:
        yield hit("broken", error=venv["error"], **about)
    else:
        drift = drifted(venv["recorded"], venv["packages"])
        if venv["recorded_python"] and venv["python"] != venv["recorded_python"]:
            drift.insert(0, f"Python {venv['python']} instead of {venv['recorded_python']}")
        if drift:
            yield hit("drift", drift=listed(drift), **about)
        else:
            yield fine(f"Python {venv['python']}{_frameworks(venv)}", subject=name)


def _frameworks(venv: Mapping[str, Any]) -> str:
    shown = [f"{name} {value}" for name, value in sorted(venv["imports"].items())]
    return f", {', '.join(shown)}" if shown else ""


def drifted(recorded: Mapping[str, str], found: Mapping[str, str]) -> List[str]:
    """List changed and missing packages; packages added by hand are harmless."""
    return [
        f"{name} {found.get(name, 'missing')} instead of {wanted}"
        for name, wanted in sorted(recorded.items())
        if found.get(name) != wanted
    ]


def _imports(facts: Facts) -> Iterator[Hit]:
    any_here = False
    for venv in facts["venvs"]:
        for framework, error in sorted(venv["import_errors"].items()):
            any_here = True
            about = {"framework": framework, "name": venv["name"], "error": error}
            yield hit("fails", subject=venv["name"], host=facts["host"]["name"], **about)
        for framework, found in sorted(venv["imports"].items()):
            any_here = True
            yield fine(f"{framework} {found}", subject=venv["name"])
    if not any_here:
        yield skipped("no framework is installed in a venv here")


def _runs(facts: Facts) -> Iterator[Hit]:
    if not facts["runs"]:
        yield skipped("no run is declared here")
    for run in facts["runs"]:
        hits = list(_run(run))
        state = f"{run['state']}, attempt {run['attempt']}"
        yield from hits or [fine(state, subject=run["run"])]


def _run(run: Mapping[str, Any]) -> Iterator[Hit]:
    name = run["run"]
    about = {"subject": name, "run": name, "unit": f"tpu-fleet-run@{name}", "log": run["log_path"]}
    if not run["agent_alive"]:
        if run["stopped_by"] and run["unit_enabled"]:
            yield hit("stopped", by=run["stopped_by"], **about)
        elif run["unit_enabled"] and run["unit_active"] != "failed" and run["told_to_stop"]:
            yield hit("stopped", by="hand", **about)
        elif run["unit_enabled"]:
            yield hit("no_agent", **about)
    elif not run["unit_enabled"]:
        yield hit("not_enabled", **about)
    if run["state"] == "failed":
        yield hit("failed", ended=_ended(run), **about)
    elif run["quiet"] is not None:
        yield hit("quiet", age=long(run["quiet"]), **about)
    elif run["agent_alive"] and run["state"] in ("pending", "restarting") and run["reason"]:
        yield hit("waits", state=run["state"], reason=run["reason"], **about)
    for problem in run["problems"]:
        archive = problem.startswith("archive: ")
        yield hit("archive" if archive else "problem", problem=problem, **about)
    if run["dropped"]:
        yield hit("log_dropped", dropped=run["dropped"], **about)


def _ended(run: Mapping[str, Any]) -> str:
    said = f": {run['failed_with']}" if run["failed_with"] else ""
    if run["signal"] is not None:
        return f"ended by signal {run['signal']}{said}"
    if run["exit_code"] is None:
        return "it never started"
    return f"exit code {run['exit_code']}{said}"


def _chips_init(facts: Facts) -> Iterator[Hit]:
    if not facts["runs"]:
        yield skipped("no run is declared here")
    for run in facts["runs"]:
        bad = run["bad_chips"]
        if bad:
            about = {"times": bad.get("times"), "said": bad.get("said"), "run": run["run"]}
            yield hit("bad", subject=run["run"], **about)
        else:
            yield fine("no start failed for the chips of this worker", subject=run["run"])


def _stand_out(facts: Facts) -> Iterator[Hit]:
    at_work = [run for run in facts["runs"] if run["state"] == RUNNING]
    if not at_work:
        yield skipped("no run works here")
    for run in at_work:
        for said in run["stand_out"]:
            yield hit("worker", subject=run["run"], run=run["run"], said=said)


def _losses(facts: Facts) -> Iterator[Hit]:
    at_work = [run for run in facts["runs"] if run["state"] in (RUNNING, SUCCEEDED)]
    if not at_work:
        yield skipped("no run works or has succeeded here")
    for run in at_work:
        trouble = run["loss_trouble"]
        if isinstance(trouble, Mapping):
            yield hit("trouble", subject=run["run"], run=run["run"], said=loss_said(trouble))
        else:
            yield fine("its loss is in no trouble", subject=run["run"])


CHECKS: Tuple[Check, ...] = (
    Check(
        "python",
        WORKER,
        "the system's Python",
        _python,
        {
            "old": Case(
                WARN,
                "pip silently installs an old JAX with the system's Python {version}",
                "Declare each venv's Python (python: '3.12'); the role python_env installs it.",
            )
        },
    ),
    Check(
        "venvs",
        WORKER,
        "each declared venv: exists, starts, has the recorded packages",
        _venvs,
        {
            "missing": Case(
                FAIL,
                "venv {name} is missing at {path}",
                "Run: tpu-fleet apply --only venvs --limit {host}",
            ),
            "broken": Case(
                FAIL,
                "the Python of venv {name} does not start: {error}",
                "Run: tpu-fleet apply --only venvs --limit {host}",
            ),
            "drift": Case(
                WARN,
                "venv {name} was changed by hand: {drift}",
                "Declare what it needs, then: tpu-fleet apply --only venvs",
            ),
            "slow": Case(
                WARN,
                "venv {name} has not answered within {seconds} s",
                "Allow more time: tpu-fleet doctor --timeout 90",
            ),
        },
        ("venvs",),
    ),
    Check(
        "imports",
        WORKER,
        "whether the frameworks of each venv can be imported (on the CPU, without a chip)",
        _imports,
        {
            "fails": Case(
                FAIL,
                "{framework} of venv {name} cannot be imported: {error}",
                "Correct its packages, then: tpu-fleet apply --only venvs --limit {host}",
            )
        },
        ("venvs",),
    ),
    Check(
        "runs",
        WORKER,
        "each run: state, agent, unit, log",
        _runs,
        {
            "failed": Case(
                FAIL,
                "run {run} has failed ({ended})",
                "Read: tpu-fleet logs {run}; then run: tpu-fleet retry {run}",
            ),
            "quiet": Case(
                FAIL,
                "run {run} has made no step for {age}",
                "Look into it: tpu-fleet why {run}",
            ),
            "waits": Case(WARN, "run {run} is {state}: {reason}", "Remove what it waits for."),
            "no_agent": Case(
                FAIL,
                "run {run} has no running agent",
                "Read: journalctl -u {unit}; then run: sudo systemctl restart {unit}",
                fix="starts the agent",
            ),
            "stopped": Case(
                WARN,
                "run {run} was stopped by {by}",
                "To continue: tpu-fleet start {run}",
            ),
            "not_enabled": Case(
                WARN,
                "run {run} will not restart after a reboot, because its unit is not enabled",
                "Run on the machine: sudo systemctl enable {unit}",
            ),
            "problem": Case(
                FAIL, "run {run}: {problem}", "Make room on the disk of {log}, see the check disk."
            ),
            "archive": Case(
                WARN,
                "run {run}: {problem}",
                "Give the service account of the slice roles/storage.objectUser on the bucket, or "
                "correct `archive` of the run; `archive: null` switches it off.",
            ),
            "log_dropped": Case(
                WARN,
                "run {run}: {dropped} bytes of its log were lost",
                "Make room on the disk of {log}, see the check disk.",
            ),
        },
        ("runs",),
    ),
    Check(
        "chips_init",
        WORKER,
        "whether the chips of this worker have failed starts of a run",
        _chips_init,
        {
            "bad": Case(
                FAIL,
                "the chips did not initialise in {times} starts of run {run}: {said}",
                "Recreate the slice: tpu-fleet slice delete NAME, then tpu-fleet apply; or let the "
                "watcher do it (on_bad_chips, docs/gang.md).",
            ),
        },
        ("runs",),
    ),
    Check(
        "stand_out",
        WORKER,
        "workers of a run that are slow alone, or compute something else than the others",
        _stand_out,
        {
            "worker": Case(
                WARN,
                "run {run}: {said}",
                "Compare that worker's rows here; if nothing differs, its machine may be bad: "
                "recreate the slice.",
            ),
        },
        ("runs",),
    ),
    Check(
        "loss",
        WORKER,
        "the loss that each run reports: whether it is a number, and not far above its best",
        _losses,
        {
            "trouble": Case(
                FAIL,
                "run {run}: {said}",
                "Stop the run, correct its program or its settings, and let it continue from a "
                "checkpoint from before.",
            ),
        },
        ("runs",),
    ),
)
