"""meta/runtime.yml agrees with what is in the collection.

Ansible ignores what it does not know in meta/runtime.yml; its own check of the form of that file is
in the stage `pylint`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible.release import __version__
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
RUNTIME: dict[str, Any] = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())


def test_it_has_no_key_but_those_that_ansible_reads() -> None:
    assert set(RUNTIME) == {"requires_ansible", "action_groups"}


def test_the_ansible_of_this_checkout_is_one_that_it_allows() -> None:
    allowed = SpecifierSet(RUNTIME["requires_ansible"])
    assert __version__ in allowed
    assert "2.18.99" not in allowed


def test_a_group_of_actions_has_each_of_its_members_once() -> None:
    for name, members in RUNTIME["action_groups"].items():
        assert len(members) == len(set(members)), name
        missing = [
            member
            for member in members
            if not any(
                (ROOT / f"plugins/{kind}/{member}.py").exists() for kind in ("modules", "action")
            )
        ]
        assert missing == [], name
