"""Which packages a host lacks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.modules import missing_packages

TOLD = "ii git\nrc zsh\niU tmux\nii libstdc++6\n"


class Ended(Exception):
    """The module has said its last word."""


class Module:
    """Ansible's module, on a host where dpkg-query answers as given."""

    asked: list[str]

    def __init__(self, names: list[str], answer: tuple[int, str, str]) -> None:
        self.params = {"names": names}
        self.answer = answer
        self.asked = []
        self.said: dict[str, Any] = {}

    def run_command(self, argv: list[str]) -> tuple[int, str, str]:
        self.asked = argv
        return self.answer

    def exit_json(self, **said: Any) -> None:
        self.said = said
        raise Ended

    fail_json = exit_json


def ask(monkeypatch: pytest.MonkeyPatch, names: list[str], answer: tuple[int, str, str]) -> Module:
    module = Module(names, answer)
    monkeypatch.setattr(missing_packages, "AnsibleModule", lambda **_: module)
    with pytest.raises(Ended):
        missing_packages.main()
    return module


def test_only_what_is_whole_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["zsh", "git", "tmux", "libstdc++6", "fish"]
    module = ask(monkeypatch, names, (1, TOLD, "no packages found matching fish"))
    assert module.said == {"changed": False, "packages": ["zsh", "tmux", "fish"]}
    assert module.asked[-len(names) :] == names


def test_nothing_is_asked_about_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ask(monkeypatch, [], (2, "", ""))
    assert module.said["packages"] == []
    assert not module.asked


def test_a_broken_dpkg_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ask(monkeypatch, ["git"], (2, "", "failed to open package info file"))
    assert "failed to open package info file" in module.said["msg"]
