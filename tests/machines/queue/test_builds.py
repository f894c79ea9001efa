"""A venv that is built when a run needs it: by the role itself, on both workers of a slice, once.

`.venv/bin/pytest -x tests/machines/queue/test_builds.py`
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, changes, wait_until
from submitters import Person

# In CI tests/cloud/queue_agent has it as processes, and tests/cloud/modules the role's module.
pytestmark = pytest.mark.night

ZONE, BUCKET = "us-central2-b", "lab-builds"
HOSTS = ("pair-w0", "pair-w1")
SAYS = ("python", "-c", "import idna, sys; print('idna in', sys.prefix)")


class Lab:
    """A slice of two workers that serves a queue, and a person who submits."""

    def __init__(self, folder: Path) -> None:
        self.key = folder / "alice.key"
        self.alice = Person(folder, "alice")
        self.fleet = Fleet(folder, NOTHING)

    def begin(self) -> None:
        """Create the bucket and the slice."""
        self.fleet.up()
        made = {"name": BUCKET, "location": "US-CENTRAL2"}
        store = f"http://127.0.0.1:{self.fleet.port}/storage/v1/b"
        requests.post(store, json=made, timeout=60).raise_for_status()
        venv = {"name": "tools", "path": "/opt/venvs/tools", "packages": ["idna"], "on_need": True}
        self.fleet.declare(
            {
                **NOTHING,
                "fleet_slices": [{"name": "pair", "accelerator_type": "v4-16", "zone": ZONE}],
                # What the roles of the runs need, and no more.
                "fleet_base_packages": ["sudo", "tmux", "tzdata"],
                "fleet_users": [{"name": "alice", "uid": 2001, "keys": [self.alice.public_key]}],
                "fleet_venvs": [venv],
                "fleet_queue": {"bucket": f"gs://{BUCKET}/queue", "venv": "tools"},
            }
        )
        self.fleet.play("site.yml")

    def submit(self, name: str) -> None:
        """Submit a run as alice does."""
        options = ("--ssh-key", str(self.key), "--code", "none", "--name", name)
        self.fleet.run("tpu-fleet", "submit", *options, "--", *SAYS)

    def run(self, name: str) -> dict[str, Any]:
        """Return what `runs --queue` has of a run."""
        rows = self.fleet.report("tpu-fleet", "runs", "--queue", "--json")["runs"]
        return dict(next(row for row in rows if row["run"] == name))

    def why(self, name: str, words: str) -> str:
        """Wait until the reason of a run has some words; return it."""

        def look() -> str:
            told = str(self.run(name)["why"])
            return told if words in told else ""

        try:
            return wait_until(words, look, 180) or ""
        except AssertionError as error:
            said = "journalctl -u tpu-fleet-queue -u 'tpu-fleet-venv@*' | tail -n 40"
            told = [self.root(host, said) for host in HOSTS]
            raise AssertionError(f"{error}: {self.run(name)}, {told}") from None

    def root(self, host: str, script: str) -> str:
        """Run a script as root on a worker."""
        return self.fleet.ssh(host, f"sudo bash <<'END'\nset -eu\n{script}\nEND").strip()

    def builds(self) -> list[str]:
        """Return the builds that both workers have."""
        return [self.root(host, "ls -d /opt/venvs/.tools-* 2>/dev/null || true") for host in HOSTS]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The fleet, as site.yml makes it."""
    folder = tmp_path_factory.mktemp("builds")
    lab = Lab(folder)
    try:
        lab.begin()
        yield lab
    finally:
        lab.fleet.down()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_first_run_that_needs_a_venv_has_it_built_on_all_workers(lab: Lab) -> None:
    assert lab.builds() == ["", ""]
    # Something is in the way on one worker: that is no failure of the run, and named.
    lab.root("pair-w1", "mkdir -p /opt/venvs/tools")
    lab.submit("first")
    assert "pair builds venv tools, " in lab.why("first", "builds venv tools, ")
    told = lab.why("first", "failed")
    assert "build of venv tools failed on pair-w1: " in told
    assert "/opt/venvs/tools exists and was not created by tpu.fleet" in told
    run = lab.run("first")
    assert (run["state"], run["failures"]) == ("waiting", 0)
    lab.root("pair-w1", "rmdir /opt/venvs/tools")
    wait_until("its end", lambda: lab.run("first")["state"] == "done", 300)
    for host in HOSTS:
        assert "idna in /opt/venvs/.tools-" in lab.fleet.log(host, "first")
        # What belongs to root is built by the builder's account.
        assert lab.root(host, "stat -c %U /opt/venvs/tools/bin/python") in ("tpu-fleet-build",)
    kept = lab.builds()
    assert kept[0] == kept[1] != ""


def test_it_is_kept_and_an_apply_finds_nothing_to_do(lab: Lab) -> None:
    kept = lab.builds()
    lab.submit("second")
    wait_until("its end", lambda: lab.run("second")["state"] == "done", 60)
    assert lab.builds() == kept
    found = changes(lab.fleet.play("site.yml"))
    assert {host: found[host] for host in HOSTS} == dict.fromkeys(HOSTS, (0, 0, 0))
    assert lab.builds() == kept
    said = lab.fleet.play("site.yml")
    assert f"as declared, nothing to do: {', '.join(HOSTS)}" in said
