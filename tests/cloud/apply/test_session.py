"""A host that is asked to be something: the real program, real processes, real ansible-playbook.

Only the connection is left out: the controller's end is here, at the program's standard streams.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import agent
from shipped import with_roles

PROGRAM = """
import sys
sys.path.insert(0, {agent!r})
from pathlib import Path
from tpu_fleet_apply.engine import engine_of
from tpu_fleet_apply.place import Place
from tpu_fleet_apply.runs import RunFiles
from tpu_fleet_apply.session import Session
from tpu_fleet_apply.stamp import Watch
from tpu_fleet_apply.talk import Line
from tpu_fleet_apply import work
import json
work.UNHEARD = {unheard}
folder = Path({folder!r})
watch = Watch(trees=(str(folder / "etc"),), closed=(), files=(), homes=(), units=())
place = Place(
    folder / "state",
    folder / "programs",
    folder / "logs",
    folder / "state.json",
    folder / "units",
    watch,
    runs=RunFiles(folder / "root"),
)
line = Line(sys.stdin.buffer, sys.stdout.buffer)
session = Session(place, line, engine_of(place), patience={patience})
if sys.argv[1:] == ["again"]:
    sys.exit(session.again())
request = json.loads(sys.stdin.buffer.readline())
sys.exit(session.be(request))
"""
# Each writes a file of its own, and says in a log that it ran.
ROLE = """
- name: Say that {role} runs
  ansible.builtin.shell: echo {role} >> {folder}/ran; test ! -e {folder}/wait || sleep 1000
  changed_when: false
- name: Write the file of {role}
  ansible.builtin.copy:
    content: "{{{{ {role}_text }}}}\\n"
    dest: {folder}/etc/{role}
    mode: "0644"
"""


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Host:
    """One host, and its controller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "etc").mkdir(parents=True)
        (folder / "agent.pyz").write_bytes(agent())
        self.code = self.pack()
        self.plain: dict[str, Any] = {"plain_text": "{{ no_template }}"}
        self.roles = ["first", "second"]
        self.secrets: dict[str, Any] = {}
        self.request: dict[str, Any] = {}
        self.peers: dict[str, Any] = {}
        self.values = {"first": {"first_text": "one"}, "second": {"second_text": "two"}}

    def pack(self) -> bytes:
        return with_roles(
            {
                role: ROLE.format(role=role, folder=self.folder)
                for role in ("first", "second", "code_checkout")
            }
        )

    def start(
        self, *words: str, patience: float = 60, unheard: float = 60
    ) -> subprocess.Popen[bytes]:
        program = PROGRAM.format(
            agent=str(self.folder / "agent.pyz"),
            folder=str(self.folder),
            patience=patience,
            unheard=unheard,
        )
        return subprocess.Popen(
            [sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, process: subprocess.Popen[bytes], **more: Any) -> dict[str, bytes]:
        """Send a request; return the files that the host may want."""
        given = {name: value for values in self.values.values() for name, value in values.items()}
        data = {
            "host": "w0",
            "templates": given,
            "plain": self.plain,
            "uses": {role: [*values, "plain_text"] for role, values in self.values.items()},
        }
        variables = json.dumps(data).encode()
        secrets = json.dumps({"host": "w0", "plain": self.secrets}).encode()
        wish = {
            "host": "w0",
            "roles": self.roles,
            "code": sha(self.code),
            "variables": sha(variables),
            "secrets": sha(secrets),
            "environment": {"program": str(Path(sys.executable).with_name("ansible-playbook"))},
            **more,
        }
        assert process.stdin
        request = {"wish": wish, "who": "me@here", **self.request}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return {sha(data): data for data in (self.code, variables, secrets)}

    def answers(
        self, process: subprocess.Popen[bytes], files: dict[str, bytes]
    ) -> Iterator[dict[str, Any]]:
        """Give what is asked for; return what is said."""
        assert process.stdin
        assert process.stdout
        for line in process.stdout:
            said = json.loads(line)
            yield said
            if said["say"] == "need":
                # Whoever has no room does not listen to the end.
                with contextlib.suppress(BrokenPipeError):
                    for name in said["files"]:
                        process.stdin.write(b"file %s %d\n" % (name.encode(), len(files[name])))
                        process.stdin.write(files[name])
                    process.stdin.flush()
            elif said["say"] == "peers":
                process.stdin.write(json.dumps(self.peers).encode() + b"\n")
                process.stdin.flush()

    def be(self, **more: Any) -> dict[str, Any]:
        """Make one call, to its end."""
        process = self.start()
        said = list(self.answers(process, self.ask(process, **more)))
        result = said[-1]
        assert process.wait(30) == (0 if result["status"] == "ok" else 1)
        assert result["say"] == "result"
        return {**result, "said": said}

    def until(self, process: subprocess.Popen[bytes], word: str, **more: Any) -> None:
        """Go on with a call until something is said."""
        for said in self.answers(process, self.ask(process, **more)):
            if said["say"] == word:
                return
        raise AssertionError(f"{word} was never said")

    @property
    def ran(self) -> list[str]:
        """Return the roles that ran since the last look."""
        path = self.folder / "ran"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text.split()

    def wait_for(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 60
        while not (found := what()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return found

    def is_free(self) -> bool:
        """Return whether no process is at work."""
        with (self.folder / "state" / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return True

    def running(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "state" / "running.json").read_text())
        return found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


def test_first_everything_then_nothing_then_what_changed(host: Host) -> None:
    first = host.be()
    assert (first["status"], first["counts"]["changed"]) == ("ok", 2)
    assert host.ran == ["first", "second"]
    # What is kept is for root alone.
    assert (host.folder / "state").stat().st_mode & 0o777 == 0o700
    # A slow computer is alive, too, and says so.
    told = {said["say"] for said in first["said"]} - {"alive"}
    assert told == {"need", "begin", "event", "result"}
    again = host.be()
    assert (again["status"], again["counts"], len(again["said"])) == ("ok", {}, 1)
    assert host.ran == []
    host.values["second"]["second_text"] = "zwei"
    changed = host.be()
    assert (changed["counts"]["changed"], changed["roles"]) == (1, ["second"])
    assert changed["reasons"] == ["second: second_text changed"]
    assert host.ran == ["second"]
    assert (host.folder / "etc" / "second").read_text() == "zwei\n"


def test_with_nothing_to_do_it_names_the_runs_that_do_not_run(host: Host) -> None:
    root = host.folder / "root"
    for folder in ("etc/tpu-fleet/runs", "var/lib/tpu-fleet/runs/r", "proc/sys/kernel/random"):
        (root / folder).mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("this\n")
    (root / "etc/tpu-fleet/runs/r.json").write_text("{}")

    def status(**words: Any) -> None:
        text = json.dumps({"run": "r", "boot_id": "this", "since": 1.0, **words})
        (root / "var/lib/tpu-fleet/runs/r/status.json").write_text(text)

    status(state="running")
    # What was just applied may start and end runs: that is looked at later.
    assert "idle_runs" not in host.be()
    assert host.be()["idle_runs"] == []
    status(state="failed", reason="exit code 1")
    failed = {"run": "r", "state": "failed", "reason": "exit code 1"}
    assert host.be()["idle_runs"] == [failed]
    status(state="restarting", since=time.time())
    assert "idle_runs" not in host.be()


def test_values_arrive_as_they_are(host: Host) -> None:
    odd = "Zürich 東京 \U0001f680 \u2028 \x85 \x7f \t \\ud83d \"'{}:[],#&*!|>%@`"
    host.values["first"]["first_text"] = odd
    host.plain["plain_text"] = host.values["second"]["second_text"] = "{{ plain_of_it }}"
    host.plain["plain_of_it"] = odd
    host.be()
    for role in ("first", "second"):
        assert (host.folder / "etc" / role).read_text(newline="") == f"{odd}\n"


def test_values_are_of_the_type_that_they_were_of(host: Host) -> None:
    given = ["42", "true", "", "*", "=", "2026-01-01", 42, True, None, [{"a": "1e3"}], "{{ x }}"]
    host.plain.update(some=given, **{f"some_{number}": one for number, one in enumerate(given)})
    told = [f"some_{number}" for number in range(len(given))]
    host.values["first"]["first_text"] = f"{{{{ [[{', '.join(told)}], some] | to_json }}}}"
    host.be()
    assert json.loads((host.folder / "etc" / "first").read_text()) == [given, given]


def test_what_ansible_cannot_read_is_no_success(host: Host) -> None:
    host.values["first"]["first_text"] = "half of a character: \ud83d"
    for _ in range(2):
        told = host.be()
        assert (told["status"], host.ran) == ("failed", [])
        assert "hosts.yml" in told["problem"]


# In CI the timer below puts the same file right.
@pytest.mark.night
def test_what_somebody_altered_is_mended(host: Host) -> None:
    host.be()
    (host.folder / "etc" / "first").write_text("mine\n")
    mended = host.be()
    assert mended["reasons"] == [f"{host.folder}/etc/first was changed"]
    assert mended["counts"]["changed"] == 1
    assert (host.folder / "etc" / "first").read_text() == "one\n"
    assert host.be()["counts"] == {}


def test_by_its_timer_it_mends_what_was_altered(host: Host) -> None:
    (host.folder / "units").mkdir()
    timer = host.folder / "units" / "tpu-fleet-apply.timer"
    host.be(every="1h")
    assert "OnUnitActiveSec=1h" in timer.read_text()
    (host.folder / "etc" / "first").write_text("mine\n")
    for _ in range(2):
        process = host.start("again")
        said = [json.loads(line) for line in process.communicate()[0].splitlines()]
        assert (process.returncode, said[-1]["status"]) == (0, "ok")
        assert (host.folder / "etc" / "first").read_text() == "one\n"
    # What a smaller call asked for is not undone by what an earlier one asked for.
    host.values["second"]["second_text"] = "zwei"
    host.be(every="1h", roles=["second"])
    host.start("again").communicate()
    assert (host.folder / "etc" / "second").read_text() == "zwei\n"
    host.be()
    assert not timer.exists()


def agrees_with_the_first(host: Host) -> None:
    host.request = {"follow": True}
    host.peers = {"w9": {"found": "by w9", "tpu_vm_name": "s"}}
    host.roles = ["first", "code_checkout"]
    host.values = {
        "first": {"first_text": "one"},
        "code_checkout": {"code_checkout_text": "{{ hostvars['w9'].found }}"},
    }


def test_the_second_worker_waits_for_the_first_where_both_must_agree(host: Host) -> None:
    agrees_with_the_first(host)
    text = "{{ hostvars['w9'].found }} {{ groups.tpu }}"
    host.values["code_checkout"]["code_checkout_text"] = text
    told = host.be()
    assert "peers" in [one["say"] for one in told["said"]]
    assert told["counts"]["changed"] == 2
    assert (host.folder / "etc" / "code_checkout").read_text() == "by w9 ['w0']\n"


def test_what_no_controller_follows_does_not_wait_for_the_first_and_is_begun_again(
    host: Host,
) -> None:
    agrees_with_the_first(host)
    process = host.start(unheard=1)
    host.until(process, "peers")
    process.kill()
    process.wait()
    host.wait_for(host.is_free)
    assert host.be()["status"] == "ok"
    assert (host.folder / "etc" / "code_checkout").read_text() == "by w9\n"


def test_a_controller_that_follows_may_take_long_to_hear_of_the_first(host: Host) -> None:
    agrees_with_the_first(host)
    process = host.start(unheard=2.5)
    for said in host.answers(process, host.ask(process)):
        if said["say"] == "peers":
            time.sleep(5)
    assert said["status"] == "ok"


LOOKS = """
- name: Look which version is declared
  ansible.builtin.debug:
    msg: "{{ code_checkout_text }}"
  register: __code_checkout_looked
  tags: [code_checkout, code_checkout_configure]
"""


@pytest.mark.parametrize("part", [{"tags": ["code_checkout_configure"]}, {"check": True}])
def test_what_a_part_finds_out_is_what_the_others_are_told(
    host: Host, part: dict[str, Any]
) -> None:
    host.code = with_roles({"code_checkout": LOOKS})
    host.roles = ["code_checkout"]
    host.request = {"lead": True}

    def found(text: str, **more: Any) -> str:
        host.values = {"code_checkout": {"code_checkout_text": text}}
        return str(host.be(**more)["shared"]["__code_checkout_looked"]["msg"])

    assert found("old") == "old"
    assert found("new", **part) == "new"
    # Check mode has installed nothing; a part has.
    kept = json.loads((host.folder / "state" / "shared.json").read_text())
    assert kept["__code_checkout_looked"]["msg"] == ("old" if part.get("check") else "new")


def test_a_role_follows_what_it_depends_on_also_when_that_was_applied_alone(host: Host) -> None:
    after = {"second": ["first"]}
    host.be(after=after)
    host.values["first"]["first_text"] = "another"
    assert host.be(roles=["first"])["roles"] == ["first"]
    told = host.be(after=after)
    assert (told["roles"], told["reasons"]) == (
        ["second"],
        ["second: first was applied without it"],
    )
    assert host.be(after=after)["counts"] == {}


# In CI the test of the timer above has a smaller call, too.
@pytest.mark.night
def test_its_timer_goes_on_to_look_after_the_roles_that_a_smaller_call_left_out(host: Host) -> None:
    (host.folder / "units").mkdir()
    host.be(every="1h")
    host.values["second"]["second_text"] = "zwei"
    host.be(every="1h", roles=["second"])
    (host.folder / "etc" / "first").write_text("mine\n")
    host.start("again").communicate()
    assert (host.folder / "etc" / "first").read_text() == "one\n"
    assert (host.folder / "etc" / "second").read_text() == "zwei\n"


def test_nothing_is_begun_without_room(host: Host) -> None:
    store = host.folder / "state" / "files"
    store.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(store)], check=True)
    try:
        process = host.start()
        said = list(host.answers(process, host.ask(process)))
        assert "has no room for" in said[-1]["problem"]
        assert host.ran == []
    finally:
        subprocess.run(["umount", str(store)], check=True)
    assert host.be()["status"] == "ok"


def test_what_the_api_says_is_no_template(host: Host) -> None:
    host.values["first"]["first_text"] = "{{ plain_text }} {{ 1 + 1 }} {{ more.list[0] }}"
    host.plain["plain_text"] = 'a "label": {{ lookup("pipe", "touch /tmp/owned") }} \\ # é'
    host.plain["more"] = {"list": ["{% raw %}", 1, None, True]}
    assert host.be()["status"] == "ok"
    text = (host.folder / "etc" / "first").read_text()
    assert text == host.plain["plain_text"] + " 2 {% raw %}\n"


def test_check_mode_shows_and_changes_nothing(host: Host) -> None:
    told = host.be(check=True, diff=True)
    assert told["counts"]["changed"] == 2
    assert not (host.folder / "etc" / "first").exists()
    diffs = [said["diff"] for said in told["said"] if said.get("diff")]
    assert "one" in json.dumps(diffs)
    # It is known that nothing is known.
    assert host.be()["reasons"] == ["all roles: it was never applied"]


def test_a_failure_is_told_and_tried_again(host: Host) -> None:
    (host.folder / "etc" / "second").mkdir()
    failed = host.be()
    assert (failed["status"], failed["counts"]["failed"]) == ("failed", 1)
    (host.folder / "etc" / "second").rmdir()
    mended = host.be()
    assert (mended["status"], mended["reasons"][0]) == ("ok", "all roles: the last time it failed")


def test_a_lost_connection_loses_nothing(host: Host) -> None:
    (host.folder / "wait").touch()
    process = host.start()
    host.until(process, "begin")
    process.kill()
    process.wait()
    pid = host.wait_for(lambda: host.running().get("pid"))
    os.kill(pid, 0)
    # Somebody else asks for the same: they see how it goes on.
    other = host.start()
    files = host.ask(other)
    host.wait_for(lambda: (host.folder / "ran").exists())
    sleeping = host.wait_for(lambda: children_named(pid, "sleep"))
    (host.folder / "wait").unlink()
    os.kill(sleeping[0], signal.SIGKILL)
    said = list(host.answers(other, files))
    assert said[-1]["say"] == "result"
    assert "begin" not in [one["say"] for one in said]
    # The shell whose sleep was killed has failed; the next call makes it good.
    assert host.be()["status"] == "ok"


def test_who_was_away_at_the_end_hears_of_it_later(host: Host) -> None:
    process = host.start()
    host.until(process, "begin")
    process.kill()
    process.wait()
    host.wait_for(lambda: list((host.folder / "state" / "results").glob("*.json")))
    # Until it is through, it would be followed, as if nobody had been away.
    host.wait_for(host.is_free)
    late = host.be()
    assert (late["status"], late["missed"], late["counts"]["changed"]) == ("ok", True, 2)
    assert host.be()["counts"] == {}
    assert host.ran == ["first", "second"]


def test_two_controllers_wait_for_one_another(host: Host) -> None:
    (host.folder / "wait").touch()
    process = host.start()
    host.until(process, "begin")
    pid = host.wait_for(lambda: host.running().get("pid"))
    host.values["first"]["first_text"] = "another"
    impatient = host.start(patience=1)
    said = list(host.answers(impatient, host.ask(impatient)))
    assert said[-1]["status"] == "failed"
    assert "me@here has been applying roles here since" in said[-1]["problem"]
    sleeping = host.wait_for(lambda: children_named(pid, "sleep"))
    (host.folder / "wait").unlink()
    os.kill(sleeping[0], signal.SIGKILL)
    process.communicate()
    assert host.be()["status"] == "ok"
    assert (host.folder / "etc" / "first").read_text() == "another\n"


def test_killed_in_the_middle_it_begins_again(host: Host) -> None:
    (host.folder / "wait").touch()
    process = host.start()
    files = host.ask(process)
    said = host.answers(process, files)
    while next(said)["say"] != "begin":
        pass
    pid = host.wait_for(lambda: host.running().get("pid"))
    host.wait_for(lambda: children_named(pid, "sleep"))
    for child in [pid, *descendants(pid)]:
        os.kill(child, signal.SIGKILL)
    assert "the work was ended early" in list(said)[-1]["problem"]
    (host.folder / "wait").unlink()
    assert host.be()["reasons"] == ["all roles: the last time was interrupted"]
    assert host.be()["counts"] == {}


# In CI tests/unit/plugins/module_utils/_apply_agent/test_store.py has half a file.
@pytest.mark.night
def test_half_a_file_is_none(host: Host) -> None:
    process = host.start()
    files = host.ask(process)
    assert process.stdin
    assert process.stdout
    assert json.loads(process.stdout.readline())["say"] == "need"
    process.stdin.write(b"file %s %d\n" % (sha(host.code).encode(), len(host.code)))
    process.stdin.write(host.code[:100])
    process.stdin.close()
    assert "only 100 of" in json.loads(process.stdout.readline())["problem"]
    assert process.wait(30) == 1
    assert host.ran == []
    assert files
    assert host.be()["status"] == "ok"


def test_secrets_are_in_no_file_but_their_own(host: Host) -> None:
    del host.values["first"]["first_text"]
    host.secrets["first_text"] = "canary-4711"
    host.be()
    found = subprocess.run(
        ["grep", "-rl", "canary-4711", str(host.folder)], capture_output=True, text=True, check=True
    ).stdout.split()
    kept = [path for path in found if "/state/files/" in path]
    assert len(kept) == 1
    assert Path(kept[0]).stat().st_mode & 0o777 == 0o600
    assert set(found) == {*kept, f"{host.folder}/etc/first"}


def descendants(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [int(path.name), *descendants(int(path.name))]
    return found


def children_named(pid: int, name: str) -> list[int]:
    found = []
    for child in descendants(pid):
        try:
            if Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(child)
        except OSError:
            continue
    return found


def test_the_host_needs_only_its_python(host: Host) -> None:
    """The oldest of the supported ones that this computer has."""
    found = [shutil.which(f"python3.{minor}") for minor in (8, 9, 10, 11)]
    pythons = [path for path in found if path and runs(path)] or [sys.executable]
    packed = str(host.folder / "agent.pyz")
    code = f"import sys; sys.path.insert(0, {packed!r}); import tpu_fleet_apply.program"
    subprocess.run([pythons[0], "-I", "-S", "-c", code], check=True)


def runs(python: str) -> bool:
    """Return whether a name is that of a Python that is installed."""
    return subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0
