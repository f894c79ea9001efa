"""Small machines: their accounts, addresses and logs, before anything touches the computer."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from ssh_log import Seen, SshLogs, count

from tpu_local_cloud.machines import small_agent
from tpu_local_cloud.machines.base import MachineError, MachineSpec
from tpu_local_cloud.machines.census import Census
from tpu_local_cloud.machines.delay import Line
from tpu_local_cloud.machines.guest.accounts import MARK
from tpu_local_cloud.machines.hub import (
    Hub,
    computer_words,
    detour_words,
    hub_words,
    link_name,
    machine_words,
)
from tpu_local_cloud.machines.layout import Layout, write_json
from tpu_local_cloud.machines.network import Network
from tpu_local_cloud.machines.small import (
    START,
    asks_for_reboot,
    folder,
    lives_on,
    refuse_disks,
    ssh_log,
    sshd_settings,
)
from tpu_local_cloud.machines.small_accounts import Books, apply, changed
from tpu_local_cloud.model.shared.records import NodeRecord

NETWORK = Network("abc123", "10.99.0.0/16", 8471)
# More than any kernel counts to.
NOBODY = 4194305
BOOKS = Books(
    "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n",
    "root:*:1::::::\nubuntu:!:1::::::\n",
    "root:x:0:\nadm:x:4:\nvideo:x:44:eve\nubuntu:x:1000:\n",
)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr("tpu_local_cloud.machines.layout.SHARED_RUN", tmp_path / "run")
    monkeypatch.setattr("tpu_local_cloud.machines.layout.SHARED_LIB", tmp_path / "lib")
    layout = Layout(tmp_path / "cloud")
    layout.run_dir.mkdir(parents=True)
    layout.machines_dir.mkdir(parents=True)
    return layout


@pytest.mark.parametrize(("value", "small"), [("small", True), ("big", False), (None, False)])
def test_the_metadata_of_the_node_ask_for_small_machines(value: str | None, small: bool) -> None:
    metadata = {} if value is None else {"local-cloud-machine": value}
    node = NodeRecord("z", "n", {"metadata": metadata})
    node.machines = [{"machine_id": "m", "internal_ip": "10.99.0.2", "external_ip": None}]
    assert node.spec(0).small is small


@pytest.mark.parametrize(("value", "shares"), [("yes", True), ("no", False), (None, False)])
def test_the_metadata_of_the_node_ask_for_the_shared_folder(
    value: str | None, shares: bool
) -> None:
    metadata = {} if value is None else {"local-cloud-share": value}
    node = NodeRecord("z", "n", {"metadata": metadata})
    node.machines = [{"machine_id": "m", "internal_ip": "10.99.0.2", "external_ip": None}]
    assert node.spec(0).shares is shares


def test_the_instances_of_a_slice_find_each_other_by_name() -> None:
    node = NodeRecord("z", "n", {}, api="compute", compute={"group": {}})
    node.machines = [
        {"machine_id": f"n-{k}", "name": f"n-{k}", "internal_ip": f"10.99.0.{k}", "external_ip": ""}
        for k in (2, 3)
    ]
    assert node.spec(0).hosts == "10.99.0.2 n-2\n10.99.0.3 n-3\n"
    node.api = "tpu"
    assert node.spec(0).hosts == ""


# Accounts -------------------------------------------------------------------------------------


def test_a_new_user_gets_an_account_without_a_password() -> None:
    books = changed(BOOKS, {"alice": ["k"]}, set())
    entry = books.entry("alice")
    assert entry
    assert (entry.uid, entry.gid, entry.home) == (1001, 1001, "/home/alice")
    assert "alice:*:" in books.shadow
    lines = books.group.splitlines()
    assert {"adm:x:4:alice", "video:x:44:eve,alice", "alice:x:1001:"} <= set(lines)
    assert "google-sudoers:x:999:alice" in lines


def test_an_account_that_is_there_can_be_logged_in_to() -> None:
    books = changed(BOOKS, {"ubuntu": ["k"]}, set())
    assert books.passwd == BOOKS.passwd
    assert "\nubuntu:*:1:" in books.shadow
    assert "root:*:1:" in books.shadow


def test_who_is_known_already_is_not_changed_again() -> None:
    once = changed(BOOKS, {"ubuntu": ["k"]}, set())
    # Somebody took it out of a group, as they may.
    moved = once.with_member("ubuntu", ("adm",), False)
    assert changed(moved, {"ubuntu": ["k"]}, {"ubuntu"}) == moved


def test_a_former_user_keeps_the_account_and_loses_sudo() -> None:
    once = changed(BOOKS, {"alice": ["k"]}, set())
    after = changed(once, {}, {"alice"})
    assert after.entry("alice")
    assert "google-sudoers:x:999:\n" in after.group
    assert "adm:x:4:alice\n" in after.group


def test_accounts_are_written_into_the_machines_files(tmp_path: Path) -> None:
    (tmp_path / "etc/skel").mkdir(parents=True)
    (tmp_path / "etc/skel/.bashrc").write_text("# hello\n")
    for name in ("passwd", "shadow", "group"):
        (tmp_path / "etc" / name).write_text(getattr(BOOKS, name))
    (tmp_path / "etc/shadow").chmod(0o640)
    me = f"me:x:{os.getuid()}:{os.getgid()}::/home/me:/bin/bash\n"
    (tmp_path / "etc/passwd").write_text(me)
    (tmp_path / "home").mkdir()
    apply(tmp_path, {"me": ["ssh-ed25519 AAAA"]})
    keys = tmp_path / "home/me/.ssh/authorized_keys"
    assert keys.read_text() == f"{MARK}\nssh-ed25519 AAAA\n"
    assert (tmp_path / "home/me/.bashrc").read_text() == "# hello\n"
    assert (tmp_path / "etc/shadow").stat().st_mode & 0o777 == 0o640
    apply(tmp_path, {})
    assert keys.read_text() == ""


# The border between the machines and this computer ---------------------------------------------


@pytest.mark.parametrize("whose", ["init", "own", "nobody"])
def test_the_agent_never_works_on_this_computer(layout: Layout, whose: str) -> None:
    pid = {"init": 1, "own": os.getpid(), "nobody": NOBODY}[whose]
    assert not lives_on(pid, folder(layout, "m"))
    with pytest.raises(ProcessLookupError):
        small_agent._enter(layout, "m", pid)


@pytest.mark.parametrize("whose", ["own", "nobody"])
def test_the_network_of_this_computer_is_never_taken_for_a_machines(whose: str) -> None:
    pid = {"own": os.getpid(), "nobody": NOBODY}[whose]
    # Without a network to work on: it is refused before anything is run.
    with pytest.raises(MachineError, match="no network of its own"):
        Hub.__new__(Hub).plug(pid, "10.99.0.7", None)


def test_a_reboot_is_asked_for_by_a_word_and_not_by_a_link(layout: Layout, tmp_path: Path) -> None:
    place = folder(layout, "m") / "upper/run"
    place.mkdir(parents=True)
    word = place / "last-word"
    assert not asks_for_reboot(layout, "m")
    word.write_text("poweroff\n")
    assert not asks_for_reboot(layout, "m")
    word.write_text("reboot\n")
    assert asks_for_reboot(layout, "m")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("reboot\n")
    word.unlink()
    word.symlink_to(elsewhere)
    assert not asks_for_reboot(layout, "m")


def test_the_file_for_the_pid_is_open_before_the_machine_has_another_root(tmp_path: Path) -> None:
    # To open a pipe takes a second process, here the reader: only then does the machine start.
    starting, booted = tmp_path / "starting", tmp_path / "booted"
    os.mkfifo(starting)
    words = ["sh", "-c", START, "sh", "-c", f"echo $$ > {booted}; exec sleep 60"]
    places = {"LOG": str(tmp_path / "log"), "STARTING": str(starting)}
    with subprocess.Popen(words, env={**os.environ, **places}) as starter:
        time.sleep(0.5)
        early = booted.exists()
        pid = int(starting.read_text())
        os.kill(pid, 9)
        assert starter.wait(60) == 0
    assert not early
    assert not booted.exists() or int(booted.read_text()) == pid


def test_disks_are_refused() -> None:
    spec = MachineSpec("m", "z", "1", 0, "10.99.0.2", small=True)
    refuse_disks(spec)
    with pytest.raises(MachineError, match="no data disks: leave the metadata"):
        refuse_disks(MachineSpec("m", "z", "1", 0, "10.99.0.2", None, ("d",)))  # type: ignore[arg-type]


# The network ----------------------------------------------------------------------------------


def test_links_have_names_of_their_own_that_the_kernel_takes() -> None:
    names = {link_name(f"10.99.{a}.{b}") for a in range(4) for b in range(256)}
    assert len(names) == 1024
    assert max(map(len, names)) <= 15


def test_neighbours_are_written_down_on_both_sides() -> None:
    outside = hub_words("10.99.0.7", "10.99.128.9", 42)
    inside = machine_words(NETWORK, "10.99.0.7", "10.99.128.9")
    theirs = "02:00:0a:63:00:07"
    assert any(f"name eth0 address {theirs} netns 42" in word for word in outside)
    assert f"neigh replace 10.99.0.7 lladdr {theirs} dev h0a630007 nud permanent" in outside
    assert "route replace 10.99.128.9/32 via 10.99.0.7 dev h0a630007 onlink" in outside
    assert "address add 10.99.128.9/32 dev lo" in inside
    assert any(word.startswith("neigh replace 10.99.0.1 lladdr 02:01:") for word in inside)
    assert not any("128.9" in word for word in machine_words(NETWORK, "10.99.0.7", None))


def test_the_hub_has_the_last_address_and_no_machine_has_it() -> None:
    assert NETWORK.hub == "10.99.127.254"
    assert NETWORK.internal_range[1] == "10.99.127.253"
    words = computer_words(NETWORK, "replace", ["10.99.0.7"])
    assert words == ["route replace 10.99.0.7/32 via 10.99.127.254 dev tpufabc123"]


def test_the_detour_spares_the_machines_among_themselves() -> None:
    rules = [word for word in detour_words() if word.startswith("rule")]
    order = [word.partition(" pref ")[2].split()[0] for word in rules]
    assert order == sorted(order)
    assert rules[-2].endswith("lookup main suppress_prefixlength 31")
    assert rules[-1].endswith("lookup 101")


def test_a_packet_leaves_when_its_time_has_come() -> None:
    line = Line(0.03)
    assert line.next is None
    line.enter(b"a", 1.0)
    line.enter(b"b", 1.02)
    assert line.next == pytest.approx(1.03)
    assert line.leave(1.029) == []
    assert line.leave(1.04) == [b"a"]
    assert line.leave(2.0) == [b"b"]


# What runs, and what it saw -------------------------------------------------------------------


def test_the_census_reads_only_what_has_changed(layout: Layout) -> None:
    census = Census(layout)
    assert census.look() == {}
    layout.pid_file("a").write_text("11\n")
    write_json(layout.record("a"), {})
    assert census.look() == {"a": 11}
    # Once more, and then no more.
    assert census.look() == {"a": 11}
    assert census.look() is None
    layout.pid_file("b").write_text("")
    assert census.look() == {"a": 11}
    layout.pid_file("b").write_text("12\n")
    assert census.look() == {"a": 11, "b": 12}
    layout.pid_file("a").unlink()
    assert census.look() == {"b": 12}


def test_sshd_gives_the_variables_of_the_image_to_every_session() -> None:
    assert sshd_settings("A no\n", "") == "A no\n"
    assert sshd_settings("A no\n", "X=1\n\nY=2\n") == "A no\nSetEnv X=1 Y=2\n"


LOG = """\
Server listening on 0.0.0.0 port 22.
Connection from 10.99.0.1 port 40066 on 10.99.0.4 port 22 rdomain ""
Connection reset by 10.99.0.1 port 40066
Connection from 10.99.0.1 port 60594 on 10.99.0.4 port 22 rdomain ""
Accepted publickey for alice from 10.99.0.1 port 60594 ssh2: ED25519 SHA256:x
User child is on pid 22
Starting session: command for alice from 10.99.0.1 port 60594 id 0
Starting session: subsystem 'sftp' for alice from 10.99.0.1 port 60594 id 1
Received disconnect from 10.99.0.1 port 60594:11: disconnected by user
"""


def test_connections_and_executions_are_counted_in_the_log() -> None:
    assert count(LOG) == Seen(connections=2, logins=1, executions=2)


def test_only_what_came_since_is_counted(layout: Layout) -> None:
    path = ssh_log(layout, "m")
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    logs = SshLogs(layout.state_dir)
    assert logs.count() == {"m": Seen(0, 0, 0)}
    with path.open("a") as file:
        file.write(LOG.replace("\n", "\r\n"))
    assert logs.count() == {"m": Seen(2, 1, 2)}
