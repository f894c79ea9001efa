"""What the fleet file may not say of shells and dotfiles."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_shell.rules import (
    check_user_shell,
)


def fleet(*people: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "fleet_slices": [{"name": "solo"}, {"name": "pair"}],
        "fleet_users": [{"name": "alice", "uid": 2001}],
        "fleet_shells": [{"user": "alice", **entry} for entry in people],
        **others,
    }


REPO = {"repo": "https://example.com/dots.git"}


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (fleet({"user": "alcie"}), "shells[0].user", ["Did you mean alice"]),
        (fleet({"theme": "a b"}), "shells[0].theme", ["letters"]),
        (fleet({"plugins": ["git", "$(id)"]}), "shells[0].plugins[1]", ["letters"]),
        (fleet({"plugins": ["../../x"]}), "shells[0].plugins[0]", ["letters"]),
        (fleet({"slices": ["pear"]}), "shells[0].slices[0]", ["pair"]),
        (fleet({}, {}), "shells[1].user", ["already"]),
        (fleet({"slices": ["solo"]}, {}), "shells[1].user", ["already"]),
        (fleet({}, {"slices": ["solo"]}), "shells[1].user", ["already"]),
        (fleet({"dotfiles": {}}), "shells[0].dotfiles", ["neither"]),
        (fleet({"dotfiles": {**REPO, "local_path": "x"}}), "shells[0].dotfiles", ["both"]),
        (fleet({"dotfiles": {"repo": "--upload-pack=x"}}), "dotfiles.repo", ["dash"]),
        (fleet({"dotfiles": {**REPO, "version": "-x"}}), "dotfiles.version", ["branch"]),
        (fleet({"dotfiles": {**REPO, "subfolder": "../x"}}), "dotfiles.subfolder", ["out of"]),
        (fleet(fleet_ohmyzsh_tree="main"), "fleet_ohmyzsh_tree", ["40"]),
        (fleet(fleet_ohmyzsh_commit="0" * 40), "fleet_ohmyzsh_tree", ["missing"]),
        (fleet(fleet_shell_editor="vim; rm"), "fleet_shell_editor", ["command"]),
        (fleet(fleet_shell_packages=["a b"]), "fleet_shell_packages[0]", ["letters"]),
    ],
)
def test_one_problem_names_field_and_remedy(
    data: dict[str, Any], field: str, words: list[str]
) -> None:
    problems = check_user_shell(data)
    assert len(problems) == 1, problems
    assert problems[0].field.endswith(field)
    for word in words:
        assert word in str(problems[0])


@pytest.mark.parametrize(
    "data",
    [
        {},
        fleet({"slices": ["solo"]}, {"slices": ["pair"], "dotfiles": REPO}),
        fleet({"theme": "agnoster", "plugins": ["git", "zsh-autosuggestions"]}),
        fleet(fleet_shell_editor="code --wait"),
        fleet({"dotfiles": {"local_path": "~/dots", "subfolder": "home"}}),
    ],
)
def test_what_is_right_has_no_problem(data: dict[str, Any]) -> None:
    assert check_user_shell(data) == []
