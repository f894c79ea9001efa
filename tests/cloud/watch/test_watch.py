"""A watcher heals, and neither outages, other watchers nor its own death keep it from that."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest
from emulator import Emulator
from json_forms import conforms

from tpu_fleet.history.store import History

SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone}


def test_a_preempted_slice_is_made_again_though_the_watcher_is_killed(
    cloud: Emulator, watched: Any, hook: Any
) -> None:
    watched.get(SOLO)
    told = watched.folder / "told"
    ways = [{"apprise": hook.url}, {"command": f"cat >> {told}; echo >> {told}"}]
    watched.declare(fleet_slices=[SOLO], fleet_notify=ways)
    first = watched.start()
    watched.wait_for("this watcher is active now")
    before = watched.node()
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/solo:preempt", {})
    watched.wait_for("delete node solo")
    # Killed just while the message goes out, the next one would have to send it again.
    watched.until(lambda: watched.has_told("preempted"))
    first.kill()
    first.wait(20)
    watched.start()

    def is_back() -> bool:
        node = watched.node()
        return bool(node) and node["state"] == "READY" and node["id"] != before["id"]

    watched.until(is_back)
    # It is to be set up; and nobody can log in to an address.
    watched.wait_for("solo: it is a new node")
    watched.until(lambda: "solo was preempted" in hook.titles())
    assert hook.titles().count("solo was preempted") == 1
    message = json.loads(told.read_text().splitlines()[0])
    assert (message["event"], message["slice"]) == ("preempted", "solo")
    assert "hush" not in watched.said() + json.dumps(watched.status())
    shown = watched.command("status")
    assert "Watching as process" in shown.stdout
    assert conforms(["watch", "status"], watched.command("status", "--json").stdout)["alive"]


# In CI tests/unit/src/watch/test_jobs.py has the limits that Ansible is given.
@pytest.mark.night
def test_a_slice_that_is_not_there_is_asked_for_beside_one_that_is(
    cloud: Emulator, watched: Any
) -> None:
    # Ansible refuses a limit to localhost and to who is not there, where others are.
    watched.get({**SOLO, "name": "other"})
    watched.declare(fleet_slices=[{**SOLO, "name": "other"}, SOLO])
    watched.start()
    watched.until(lambda: (watched.node() or {}).get("state") == "READY")


# In CI tests/unit/src/watch/test_decide.py has what follows of a slice that is kept, and the test
# of the history below has one.
@pytest.mark.night
def test_what_is_kept_is_told_and_left_alone(cloud: Emulator, watched: Any, hook: Any) -> None:
    watched.get(SOLO)
    watched.declare(
        fleet_slices=[{**SOLO, "on_preempt": "keep"}], fleet_notify=[{"apprise": hook.url}]
    )
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/solo:preempt", {})
    done = watched.command("run", "--once")
    assert done.returncode == 0, done.stderr
    assert hook.titles() == ["solo was preempted"]
    assert watched.node()["state"] == "PREEMPTED"
    assert watched.command("run", "--once").returncode == 0
    assert len(hook.got) == 1


# In CI the installed service below says that the token is missing, and
# tests/unit/src/watch/test_jobs.py has the playbook that does without it.
@pytest.mark.night
def test_a_slice_comes_back_without_a_token_for_its_keys(
    cloud: Emulator, watched: Any, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    watched.declare(
        fleet_slices=[SOLO],
        fleet_notify=[{"apprise": hook.url}],
        fleet_users=[{"name": "alice", "uid": 2001}],
        fleet_git_keys=[{"name": "work", "users": ["alice"], "register": "user"}],
        fleet_github_api_url=f"{cloud.url}api/v3",
    )
    done = watched.command("run", "--once")
    assert watched.node()["state"] == "READY"
    assert "WARNING github: There is no token for GitHub, so work in fleet_git_keys" in done.stderr
    assert "Set fleet_github_token in a vault file" in done.stderr
    assert "WARNING provision" not in done.stderr
    assert "Keys of machines are not registered at GitHub" in hook.titles()
    # Nobody can log in, so the playbook fails: cron has to hear of it.
    [code] = re.findall(r"the playbook for solo exited with (\d+)", done.stderr)
    assert done.returncode == int(code) != 0
    assert "Not everything is done" in done.stderr


def test_the_service_that_is_installed_says_what_it_lacks(
    cloud: Emulator, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.declare(
        fleet_slices=[SOLO],
        fleet_users=[{"name": "alice", "uid": 2001}],
        fleet_git_keys=[{"name": "work", "users": ["alice"], "register": "user"}],
    )
    stand_in = watched.folder / "bin" / "systemctl"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(watched.folder / "config"))
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_hush")
    done = watched.command("install")
    assert done.returncode == 0, done.stderr
    [unit] = (watched.folder / "config").rglob("*.service")
    assert "hush" not in unit.read_text()
    assert "because they are or hold secrets: " in done.stderr
    assert "GITHUB_TOKEN" in done.stderr
    assert "There is no token for GitHub, so work in fleet_git_keys" in done.stderr
    # A vault has one.
    watched.declare(fleet_slices=[SOLO], fleet_github_token="ghp_of_a_vault")
    assert "There is no token" not in watched.command("install").stderr


def test_what_it_sees_is_kept_and_published(cloud: Emulator, watched: Any) -> None:
    watched.get(SOLO)
    watched.declare(fleet_slices=[{**SOLO, "on_preempt": "keep"}])
    folder = watched.folder / "www"
    page = folder / "index.html"
    watched.start_with_pages_soon(f"--page={folder}")
    watched.wait_for("page: ")  # the folder is not there
    folder.mkdir()
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/solo:preempt", {})
    watched.wait_for("preempted: solo was preempted")
    [path] = (watched.folder / "state/watch").glob("*/history.db")

    def kept() -> list[str]:
        history = History(path)
        try:
            return [str(span.value["state"]) for span in history.spans("node")]
        finally:
            history.close()

    watched.until(lambda: kept()[-1:] == ["preempted"])
    # The next time that it is published, it has what happened meanwhile.
    watched.until(lambda: page.is_file() and "solo was preempted" in page.read_text())
    assert "local-project" in page.read_text()


# In CI tests/unit/src/watch/test_trouble.py has what is said of outages and credentials, and when;
# test_errors.py of _core has the answers that are one or the other.
@pytest.mark.night
def test_outages_and_expired_credentials_are_said_once_and_survived(
    cloud: Emulator, watched: Any, hook: Any
) -> None:
    watched.get(SOLO)
    watched.declare(fleet_slices=[SOLO], fleet_notify=[{"apprise": hook.url}])
    cloud.fault("unavailable")
    assert watched.command("run", "--once").returncode == 1
    watched.start()
    watched.wait_for("settings: ")
    cloud.control("faults", method="DELETE")
    watched.wait_for("settings: over")
    watched.wait_for("this watcher is active now")

    cloud.fault("unavailable", match={"method": "nodes.list"})
    watched.wait_for("WARNING api: ")
    watched.until(lambda: watched.tries("api") > 2)
    cloud.control("faults", method="DELETE")
    watched.wait_for("api: over after")
    assert watched.said().count("WARNING api: ") == 1

    cloud.fault("unauthenticated", match={"method": "nodes.list"})
    watched.wait_for("WARNING credentials: ")
    watched.until(lambda: watched.tries("credentials") > 2)
    cloud.control("faults", method="DELETE")
    watched.wait_for("credentials: over after")
    assert watched.said().count("WARNING credentials: ") == 1
    # Short outages of the API are nobody's business at night; credentials are for a person.
    over = "Over: The credentials are not accepted"
    watched.until(lambda: over in hook.titles())
    assert hook.titles() == ["The credentials are not accepted", over]
    assert watched.node()["state"] == "READY"


# In CI tests/unit/src/watch/test_clock.py has the lease, whatever happens to clocks.
@pytest.mark.night
def test_of_several_watchers_one_works(cloud: Emulator, watched: Any) -> None:
    watched.get(SOLO)
    watched.declare(fleet_slices=[SOLO])
    first = watched.start("--lease=60")
    watched.wait_for("this watcher is active now")
    refused = watched.command("run", "--once")
    assert (refused.returncode, "runs on this computer" in refused.stderr) == (1, True)
    watched.start("--lease=60", state="other")
    watched.until(lambda: watched.status("other").get("stands_by_for"))
    assert "Standing by" in watched.command("status", state="other").stdout
    assert "is active now" not in watched.said("other")
    first.kill()
    watched.wait_for("this watcher is active now", "other")
    # Who ends as it should lets the other one work at once.
    third = watched.start("--lease=600")
    watched.until(lambda: not watched.status().get("works"))
    watched.processes[1].send_signal(signal.SIGTERM)
    assert watched.processes[1].wait(60) == 0
    watched.until(lambda: watched.status().get("works"))
    assert third.poll() is None


def test_a_mistake_in_the_fleet_file_is_told_and_what_was_read_before_holds(
    cloud: Emulator, watched: Any, hook: Any
) -> None:
    watched.get(SOLO)
    told = [{"apprise": hook.url}]
    watched.declare(fleet_slices=[SOLO], fleet_notify=told)
    watched.start()
    watched.wait_for("this watcher is active now")
    watched.declare(fleet_slices=[{**SOLO, "tiers": "spot"}], fleet_notify=[])
    watched.until(lambda: "The fleet file cannot be read" in hook.titles())
    assert "Did you mean tier?" in json.loads(hook.got[0]["body"])["message"]
    assert watched.status()["slices"][0]["phase"] == "ready"
    watched.declare(fleet_slices=[SOLO], fleet_notify=told)
    watched.until(lambda: "Over: The fleet file cannot be read" in hook.titles())


# In CI tests/unit/src/watch/test_seen.py has the messages about a grant, and test_plan.py of _fleet
# the deletions.
@pytest.mark.night
def test_what_the_grant_does_not_hold_any_more_is_told_and_deleted(
    cloud: Emulator, watched: Any
) -> None:
    watched.get(SOLO)
    told = watched.folder / "told"
    ended = {"zone": cloud.zone, "generation": "v4", "tier": "on_demand", "chips": 32}
    watched.declare(
        fleet_slices=[{**SOLO, "on_grant_end": "delete"}],
        fleet_allocations=[{**ended, "ends": "2020-01-31"}],
        fleet_notify=[{"command": f"cat >> {told}; echo >> {told}"}],
    )
    assert watched.command("run", "--once").returncode == 0
    assert watched.node() == {}
    assert "- delete node solo" in watched.said()
    [message] = told.read_text().splitlines()
    assert json.loads(message)["event"] == "grant_ending"
    assert watched.command("run", "--once").returncode == 0
    assert told.read_text().splitlines() == [message]
