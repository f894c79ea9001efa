"""What is given to a playbook as an extra variable, and what a signal does while one runs."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_runner import interface
from click.testing import CliRunner

from tpu_fleet.cli import main
from tpu_fleet.workers import play as play_module
from tpu_fleet.workers.inventory.read import PlayError, reason_of
from tpu_fleet.workers.play import ended_by_signals, play


@pytest.mark.parametrize(
    "value",
    [
        "{{ lookup('pipe', 'id') }}",
        "x{% set x = 1 %}",
        "{# x #}",
        ["a", ("{{ x }}",)],
        {"a": {"b": "{{ x }}"}},
        {"{{ x }}": 1},
    ],
)
def test_a_template_never_becomes_an_extra_variable(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(interface, "run", lambda **words: ran.append(words))
    with pytest.raises(PlayError, match=r"^finish_why.* is .*, which Ansible would evaluate"):
        play("tpu.fleet.finish", lambda _event: None, variables={"finish_why": value})
    assert ran == []


@pytest.mark.parametrize(
    "command",
    [
        "grant show",
        "cp a b:",
        "doctor",
        "exec -- true",
        "logs digits",
        "runs",
        "status",
        "tunnel",
        "watch install",
        "watch run --once",
    ],
)
def test_every_command_says_the_same_where_there_is_no_fleet(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "state"))
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_INVENTORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = hosts\n")
    (tmp_path / "a").touch()
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code
    assert f"There is no fleet here: {tmp_path}/hosts does not exist." in done.output
    assert "name its inventory in ANSIBLE_INVENTORY" in done.output
    assert "`tpu-fleet init` creates a fleet." in done.output


@pytest.mark.parametrize(
    ("playbook", "fact"), [("services", "fleet_tunnels"), ("doctor", "doctor_report")]
)
def test_playbooks_set_the_facts_that_commands_read(playbook: str, fact: str) -> None:
    text = (Path(__file__).parents[4] / f"playbooks/{playbook}.yml").read_text(encoding="utf-8")
    tasks = [task for part in yaml.safe_load(text) for task in part.get("tasks", ())]
    assert [fact in task.get("ansible.builtin.set_fact", {}) for task in tasks].count(True) == 1


ANSIBLE = """#!/bin/sh
{ echo $$ > "$MARK" ; } 2> /dev/null
exec sleep 60
"""


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have ansible-runner run a program that does not end; return the file with its pid."""
    program = tmp_path / "ansible-playbook"
    program.write_text(ANSIBLE)
    program.chmod(0o755)
    mark = tmp_path / "mark"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", str(mark))
    monkeypatch.setattr(play_module, "require_fleet", lambda: None)
    monkeypatch.setattr(play_module, "_beside_us", lambda: str(tmp_path))
    return mark


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_playbook_and_then_the_caller(
    number: signal.Signals, ansible: Path
) -> None:
    def end() -> None:
        while not (ansible.exists() and ansible.read_text()):
            over.wait(0.05)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    over = threading.Event()
    kept = handlers()
    threading.Thread(target=end, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            play("tpu.fleet.services", lambda _event: None)
        assert handlers() == kept
    finally:
        over.set()
        signal.signal(signal.SIGTERM, before)
    assert not Path(f"/proc/{ansible.read_text().strip()}").exists(), "Ansible still runs"


def test_the_first_signal_interrupts_ansible_and_the_second_kills_it() -> None:
    asked: list[int] = []

    def interrupt() -> bool:
        asked.append(1)
        return True

    def signals() -> None:
        with ended_by_signals(interrupt) as over:
            assert not over()
            signal.raise_signal(signal.SIGINT)
            # It ends by itself, in order, and is asked to once.
            assert [over(), over(), asked] == [False, False, [1]]
            signal.raise_signal(signal.SIGINT)
            assert over()

    with pytest.raises(KeyboardInterrupt):
        signals()


@pytest.mark.parametrize(("there", "patience"), [(False, 20.0), (True, 0.0)])
def test_an_ansible_that_cannot_be_interrupted_is_killed(
    there: bool, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play_module, "PATIENCE", patience)

    def signals() -> None:
        with ended_by_signals(lambda: there) as over:
            signal.raise_signal(signal.SIGINT)
            assert over()

    with pytest.raises(KeyboardInterrupt):
        signals()


def test_what_actions_report_reaches_the_caller_whole(ansible: Path) -> None:
    lines = '{"event": "slice", "slice": "solo"}\\n{"event": "plan"}\\n'
    script = f"#!/bin/sh\nprintf '{lines}' >> \"$TPU_FLEET_PROGRESS\"\nexit 0\n"
    (ansible.parent / "ansible-playbook").write_text(script)
    seen: list[Any] = []
    assert play("tpu.fleet.site", lambda _event: None, on_progress=seen.append) == 0
    assert [one["event"] for one in seen] == ["slice", "plan"]


def test_the_caller_keeps_its_signal_handlers(ansible: Path) -> None:
    (ansible.parent / "ansible-playbook").write_text("#!/bin/sh\nexit 3\n")
    kept = handlers()
    assert play("tpu.fleet.services", lambda _event: None) == 3
    assert handlers() == kept


def test_a_thread_may_run_a_playbook_without_saying_when_to_end(ansible: Path) -> None:
    (ansible.parent / "ansible-playbook").write_text("#!/bin/sh\nexit 3\n")
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(play("tpu.fleet.services", lambda _event: None))
    )
    thread.start()
    thread.join(60)
    assert codes == [3]


@pytest.mark.parametrize(
    "said",
    [
        "[ERROR]: fleet.yml, line 3: wrong",
        "Some line\n\x1b[0;31m[ERROR]: fleet.yml, line 3: wrong\x1b[0m\n",
        "[WARNING]: Failed to parse inventory with 'auto' plugin: fleet.yml, line 3: wrong\x1b[0m",
    ],
)
def test_the_reason_of_an_unread_inventory(said: str) -> None:
    assert reason_of(said) == "fleet.yml, line 3: wrong"
    assert reason_of("PLAY RECAP") == ""
