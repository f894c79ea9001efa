"""What role host_base writes, read by the programs that it is for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

ROLE = Path(__file__).resolve().parents[4] / "roles" / "host_base"


def test_updates_of_libraries_restart_no_run(tmp_path: Path) -> None:
    files = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__host_base_updates_files"]
    conf = tmp_path / "needrestart.conf"
    conf.write_text(next(f["content"] for f in files if f["path"].startswith("/etc/needrestart")))
    # As needrestart itself reads and asks it.
    program = """
        our %nrconf = (override_rc => {qr(^dbus) => 0}); defined(do shift) or die "not read: $@";
        my %left = %{$nrconf{override_rc}};
        for my $rc (@ARGV) {
            print "$rc\\n" if grep { $rc =~ /$_/ && !$left{$_} } keys %left;
        }
    """
    ours = ["tpu-fleet-run@digits.service", "tpu-fleet-notebook-a.service"]
    asked = [*ours, "dbus.service", "ssh.service"]
    done = subprocess.run(
        ["perl", "-e", program, str(conf), *asked],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (asked[:3], "")


def test_no_user_holds_the_lock_of_debconf() -> None:
    """Closed before packages are installed."""
    files = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__host_base_updates_files"]
    assert {"path": "/var/cache/debconf", "state": "directory", "mode": "0700"} in files
