"""`tpu-fleet top` on real SSH servers: in tmux, without a terminal, and what is left of it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fleet_folder import TPU_FLEET, Fleet
from sshd import Farm

from tpu_fleet.workers.ask.run_follow import RunFollower
from tpu_fleet.workers.inventory.lookup import read_known

SECONDS = 40.0


@pytest.fixture(scope="module")
def fleet(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose configuration is written by the playbook."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), farm, {"solo": 1, "pair": 2})
    # What the inventory plugin says of a worker.
    for name, said in fleet.groups["tpu"].items():
        options = said["tpu_vm_ssh_options"]
        said["tpu_vm_name"] = name.partition("-")[0]
        said["ansible_port"] = options["Port"]
        said["ansible_user"] = fleet.user
        said["ansible_ssh_private_key_file"] = str(farm.key)
        words = (shlex.quote(f"-o{key}={value}") for key, value in options.items() if key != "Port")
        said["ansible_ssh_common_args"] = " ".join(words)
    fleet.write()
    done = fleet.run("exec", "--slice", "solo", "--", "true")
    assert done.returncode == 0, done.stderr
    return fleet


class Tmux:
    """A terminal of 80 x 24 that a person types into."""

    def __init__(self, fleet: Fleet) -> None:
        self.name = f"top-{uuid.uuid4().hex[:8]}"
        environment = {**fleet.environment, "PS1": "$ ", "TERM": "xterm-256color"}
        subprocess.run(
            self._words("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "sh"),
            env=environment,
            cwd=fleet.folder,
            check=True,
        )

    def _words(self, *words: str) -> list[str]:
        return ["tmux", "-L", self.name, "-f", "/dev/null", *words]

    def _say(self, *words: str) -> str:
        done = subprocess.run(self._words(*words), check=True, capture_output=True, text=True)
        return done.stdout

    def type(self, *keys: str) -> None:
        """Press keys."""
        self._say("send-keys", "-t", "top", *keys)

    def screen(self) -> str:
        """Return what is on the screen."""
        return self._say("capture-pane", "-p", "-t", "top")

    def told(self, name: str) -> str:
        """Return what tmux knows of the terminal."""
        return self._say("display-message", "-p", "-t", "top", f"#{{{name}}}").strip()

    def until(self, what: Callable[[str], bool]) -> str:
        """Wait until the screen shows something."""
        deadline = time.monotonic() + SECONDS
        while not what(seen := self.screen()):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)
        return seen

    def stop(self) -> None:
        """End it."""
        subprocess.run(self._words("kill-server"), check=False)


@pytest.fixture
def terminal(fleet: Fleet) -> Iterator[Tmux]:
    """A terminal in the folder of the fleet."""
    tmux = Tmux(fleet)
    yield tmux
    tmux.stop()


def state(terminal: Tmux) -> list[str]:
    """Return what a program may leave behind in a terminal."""
    return [terminal.told(name) for name in ("alternate_on", "cursor_flag", "mouse_any_flag")]


END = {"Ctrl-C": "C-c", "SIGTERM": "", "a crash": ""}
CRASH = (
    "import sys; from tpu_fleet.top import app; from tpu_fleet.cli import main\n"
    "def broken(*_words): raise RuntimeError('on purpose')\n"
    "app.Top._do = broken\n"
    "sys.argv = ['tpu-fleet', 'top']; main()"
)


@pytest.mark.parametrize("how", END)
def test_the_terminal_is_as_it_was(terminal: Tmux, fleet: Fleet, how: str) -> None:
    python = TPU_FLEET.with_name("python")
    words = f"{python} -c {shlex.quote(CRASH)}" if how == "a crash" else f"{TPU_FLEET} top"
    script = fleet.folder / "script"
    script.write_text(f"echo $$ >pid; exec {words}\n")
    terminal.type("stty -g >before; sh ./script; echo code $?; stty -g >after; echo end", "Enter")
    seen = terminal.until(lambda text: "3/3 workers answer" in text)
    assert "idle" in seen
    assert state(terminal) == ["1", "0", "0"]
    if how == "SIGTERM":
        os.kill(int((fleet.folder / "pid").read_text()), signal.SIGTERM)
    else:
        terminal.type(END[how] or "j")
    seen = terminal.until(lambda text: "\nend\n" in text)
    assert state(terminal) == ["0", "1", "0"]
    before, after = ((fleet.folder / name).read_text() for name in ("before", "after"))
    assert before == after
    codes = {"SIGTERM": 143, "a crash": 1}
    assert f"code {codes.get(how, 0)}" in seen
    assert ("on purpose" in seen) == (how == "a crash")


def test_another_command_has_the_terminal_meanwhile(terminal: Tmux, fleet: Fleet) -> None:
    terminal.type(f"{TPU_FLEET} top", "Enter")
    terminal.until(lambda text: "3/3 workers answer" in text)
    terminal.type("j", "d")
    terminal.until(lambda text: "tpu-fleet doctor --limit" in text)
    assert state(terminal) == ["0", "1", "0"]
    # Ctrl-C is for the doctor.
    terminal.type("C-c")
    terminal.until(lambda text: "Press a key to go back." in text)
    terminal.type("x")
    terminal.until(lambda text: "3/3 workers answer" in text)
    # It goes on.
    terminal.type("3")
    terminal.until(lambda text: "WORKER" in text)
    assert state(terminal) == ["1", "0", "0"]
    terminal.type("q")
    terminal.until(lambda text: text.rstrip()[-1:] in "$#")


@pytest.mark.parametrize("dumb", [False, True], ids=["no terminal", "a dumb one"])
def test_one_table_without_a_screen(fleet: Fleet, dumb: bool) -> None:
    if dumb:
        command = f"TERM=dumb {TPU_FLEET} top"
        done = subprocess.run(
            ("script", "-qec", command, "/dev/null"),
            cwd=fleet.folder,
            env=fleet.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    else:
        done = fleet.run("top")
    assert done.returncode == 0, done.stderr
    assert "3/3 workers answer" in done.stdout
    assert "\x1b" not in done.stdout
    for name in ("pair", "solo"):
        rows = [line.split()[:3] for line in done.stdout.splitlines()]
        assert ["-", name, "idle"] in rows


def test_a_folder_without_a_fleet(tmp_path: Path, fleet: Fleet) -> None:
    done = fleet.run("top", "--interval", "0")
    assert (done.returncode, "--interval" in done.stderr) == (2, True)


def test_workers_that_go_and_come_back(
    farm: Farm, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpu_fleet.workers.ask.run_follow.PAUSES", (0.5,))
    known = read_known((os.path.realpath(fleet.folder / "hosts.yml"),), fleet.environment)
    assert known is not None
    follower = RunFollower(known, 5)
    follower.start()

    def until(what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not what():
            assert time.monotonic() < deadline, (follower.heard, follower.trouble)
            time.sleep(0.05)

    try:
        until(lambda: len(follower.heard) == 3)
        assert all(not one.says and one.disk for one in follower.heard.values())
        connected = farm.logins()
        time.sleep(1.5)
        # One connection, which is kept.
        assert farm.logins() == connected
        channel = follower._channels["solo"]
        assert channel._chan is not None
        channel._chan.get_connection().abort()
        until(lambda: bool(follower.heard["solo"].says))
        assert follower.heard["solo"].disk
        until(lambda: not follower.heard["solo"].says)
    finally:
        follower.stop()
    assert not follower._thread.is_alive()
