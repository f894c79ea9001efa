"""What is given to a playbook as an extra variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_runner import interface
from click.testing import CliRunner

from tpu_fleet.cli import main
from tpu_fleet.workers.play import PlayError, play


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
        "allocation show",
        "cp a b:",
        "doctor",
        "exec -- true",
        "logs digits",
        "runs",
        "status",
        "tunnel",
        "watch --install",
        "watch --once",
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
