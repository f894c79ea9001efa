"""Which playbooks apply which parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tpu_fleet.commands.parts import PARTS, TRAIN, Step, steps_of

PLAYBOOKS = Path(__file__).parents[4] / "playbooks"
ROLES = yaml.safe_load((PLAYBOOKS / "vars/roles.yml").read_text("utf-8"))


def test_each_role_has_a_part() -> None:
    """A role that no part names could not be applied alone."""
    named = {role for part in PARTS.values() for role in part.roles}
    assert named == {role for roles in ROLES.values() for role in roles}


def test_the_roles_of_a_part_are_those_of_its_playbook_in_its_order() -> None:
    order = [role for roles in ROLES.values() for role in roles]
    for name, part in PARTS.items():
        assert [role for role in order if role in part.roles] == list(part.roles), name
        assert ("training_run" in part.roles) == (part.playbook == "train")
    train = yaml.safe_load((PLAYBOOKS / "train.yml").read_text("utf-8"))
    assert train[1]["vars"]["fleet_roles"] == list(TRAIN)


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["code"], [Step("configure", ("code_checkout",))]),
        (["runs"], [Step("train")]),
        (["runs", "code"], [Step("train")]),
        (["runs", "users"], [Step("configure", ("user_accounts",)), Step("train")]),
        (["disks"], [Step("disks"), Step("configure", ("data_disk",))]),
        (["venvs", "slices"],
         [Step("provision"), Step("configure", ("code_checkout", "python_env"))]),
    ],
)  # fmt: skip
def test_the_playbooks_of_parts(names: list[str], steps: list[Step]) -> None:
    assert steps_of(names) == steps
