"""`tpu-fleet watch install` with a user's real systemd, through a kill and a reboot.

The computer is a machine of the local cloud, where tpu-fleet is installed as docs/install.md says;
its fleet is on another local cloud, which it has itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from fleet import ROOT, Fleet, wait_until

# In CI tests/unit/src/watch has the unit, systemctl and the status by a stand-in.
pytestmark = pytest.mark.night

NODES = "v2/projects/local-project/locations/us-central2-b/nodes"
INSTALL = """
sudo apt-get -qq update && sudo apt-get -qq install -y python3-venv >/dev/null
python3 -m venv ~/tpu-fleet && ~/tpu-fleet/bin/pip --quiet install ~/wheels/*.whl
mkdir -p ~/empty ~/.config/systemd/user
cat >~/.config/systemd/user/cloud.service <<UNIT
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$HOME/tpu-fleet/bin/tpu-fleet cloud up --hosts none
[Install]
WantedBy=default.target
UNIT
systemctl --user --quiet enable --now cloud.service
tpu-fleet init --local --yes lab </dev/null >/dev/null && cd lab/inventory/group_vars/all
printf -- '---\\nfleet_allocations: []\\nfleet_slices: []\\n' >fleet.yml
"""
WATCHES = re.compile(r"^Watching as process (\d+) for .*; last poll \d+ s ago\.$", re.M)
On = Callable[..., str]


@pytest.fixture
def on_desk(fleet: Fleet, tmp_path: Path) -> On:
    """Run a script on the computer, as a login of its user; return what it printed."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    requests.post(
        f"http://127.0.0.1:{fleet.port}/{NODES}?nodeId=desk",
        json={
            "acceleratorType": "v4-8",
            "runtimeVersion": "tpu-ubuntu2204-base",
            "networkConfig": {"enableExternalIps": True},
            "metadata": {"ssh-keys": f"ada:{key.with_suffix('.pub').read_text().strip()}"},
        },
        timeout=60,
    ).raise_for_status()
    # A machine that this test has just made, and whose keys no fleet has seen.
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")

    def login(script: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        [worker] = fleet.cloud()["desk"]["workers"]
        to = ("-l", "ada", worker["external_ip"])
        words = ("ssh", "-i", str(key), *(f"-o{one}" for one in options), "-oConnectTimeout=5")
        script = f"PATH=~/tpu-fleet/bin:$PATH; {script}"
        return subprocess.run(
            [*words, *to, script], input=data, capture_output=True, timeout=600, check=False
        )

    def run(script: str, data: bytes = b"", code: int = 0) -> str:
        done = login(script, data)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == code, f"{script}: {done.returncode}\n{said}"
        return said

    wait_until("desk is ready", lambda: fleet.cloud()["desk"]["state"] == "READY", 120)
    wait_until("ada can log in", lambda: login("true").returncode == 0, 120)
    return run


def wheels(folder: Path) -> bytes:
    """Build both wheels; return them as an archive."""
    for project in (".", "local_cloud"):
        subprocess.run(
            [
                *(".venv/bin/uv", "build", "--quiet", "--no-build-isolation", "--offline"),
                *("--python", ".venv/bin/python", "--wheel", "--out-dir", str(folder), project),
            ],
            cwd=ROOT,
            check=True,
        )
    packed = ["tar", "-C", str(folder), "-cf", "-", *(one.name for one in folder.glob("*.whl"))]
    return subprocess.run(packed, capture_output=True, check=True).stdout


def is_up(fleet: Fleet) -> bool:
    """Say whether the computer's sshd answers, without a login."""
    [worker] = fleet.cloud()["desk"]["workers"]
    done = subprocess.run(
        ["ssh-keyscan", "-T", "2", worker["external_ip"]], capture_output=True, check=False
    )
    return bool(done.stdout)


def test_the_watcher_is_a_service_that_comes_back(
    fleet: Fleet, on_desk: On, tmp_path: Path
) -> None:
    on_desk("mkdir wheels && tar -C wheels -xf -", wheels(tmp_path / "wheels"))
    on_desk(f"set -e; {INSTALL}")

    # Nothing is written where it cannot work, and each error has its remedy.
    said = on_desk("cd empty && tpu-fleet watch install", code=1)
    assert "There is no fleet here" in said
    by_su = "env -u XDG_RUNTIME_DIR -u DBUS_SESSION_BUS_ADDRESS"
    said = on_desk(f"cd lab && {by_su} tpu-fleet watch install", code=1)
    assert "XDG_RUNTIME_DIR does not name its folder: export XDG_RUNTIME_DIR=/run/user/" in said
    assert "No watcher of this fleet has run here" in on_desk(
        "cd lab; tpu-fleet watch status", code=1
    )
    assert on_desk("cd .config/systemd/user && ls *.service").strip() == "cloud.service"

    said = on_desk("cd lab && tpu-fleet watch install")
    assert "It ends when you log out" in said
    on_desk("sudo loginctl enable-linger ada")
    said = on_desk("cd lab && tpu-fleet watch install --interval 2")
    assert "It ends when you log out" not in said
    [unit] = re.findall(r"tpu-fleet-watch-\w+\.service", said.splitlines()[0])
    assert on_desk(f"systemctl --user is-active {unit}; systemctl --user is-enabled {unit}") == (
        "active\nenabled\n"
    )

    def watching(but: str = "") -> str:
        found = WATCHES.search(on_desk("cd lab && tpu-fleet watch status"))
        return found[1] if found and found[1] != but else ""

    first = wait_until("it watches", watching, 60)
    assert f"It is {unit}, which starts at every boot.\n" in on_desk(
        "cd lab; tpu-fleet watch status"
    )
    assert unit in on_desk(f"cat /proc/{first}/cgroup")
    said = on_desk("cd empty && tpu-fleet watch uninstall", code=1)
    assert "A watcher is installed for the fleet in /home/ada/lab." in said

    on_desk(f"kill -9 {first}")
    assert "systemd starts it again" in on_desk("cd lab && tpu-fleet watch status")
    second = wait_until("systemd has started it again", lambda: watching(first), 120)

    fleet.run("tpu-fleet", "cloud", "reboot", "desk", "--worker", "0")
    wait_until("desk is up again", lambda: is_up(fleet), 120)
    wait_until("it watches after the reboot", lambda: watching(second), 120)
    journal = on_desk("sudo journalctl --boot --no-pager --output cat")
    assert journal.index(f"Started {unit}") < journal.index("Accepted publickey for ada")

    assert on_desk("cd lab && tpu-fleet watch uninstall") == f"Removed {unit}.\n"
    assert unit not in on_desk("ls -R .config/systemd; systemctl --user list-units --all")
    assert on_desk("pgrep -f 'tpu_fleet watc[h]'", code=1) == ""
    assert on_desk("cd lab && tpu-fleet watch uninstall") == f"There is no {unit}.\n"
    assert "Start it: tpu-fleet watch install" in on_desk("cd lab && tpu-fleet watch status")
