"""Variables in the files beside an inventory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible.parsing.dataloader import DataLoader
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.variable_files import (
    fill_empty_sections,
    names_by_file,
    refuse_old_names,
)


def test_old_names_are_refused_together_each_with_its_files_and_its_new_name() -> None:
    found = [
        ("training_run_runs", Path("/x/group_vars/all/fleet.yml")),
        ("fleet_slices", Path("/x/group_vars/all/fleet.yml")),
        ("mine", Path("/x/group_vars/all/fleet.yml")),
        ("host_base_time_zone", Path("/x/host_vars/pair-w0.yml")),
        ("training_run_runs", Path("/x/group_vars/tpu_slice_pair.yml")),
    ]
    with pytest.raises(AnsibleParserError) as refused:
        refuse_old_names(found)
    assert str(refused.value).splitlines() == [
        "The fleet file has 2 old names. Nothing was changed.",
        "  host_base_time_zone: is no variable of the fleet file, in /x/host_vars/pair-w0.yml. "
        "Rename it to fleet_time_zone.",
        "  training_run_runs: is no variable of the fleet file, in /x/group_vars/all/fleet.yml and "
        "/x/group_vars/tpu_slice_pair.yml. Rename it to fleet_runs.",
    ]


def test_new_names_and_those_of_others_are_not_refused() -> None:
    refuse_old_names(
        [("fleet_runs", Path("a")), ("mine", Path("a")), ("training_run_peers", Path("a"))]
    )


def test_an_empty_section_of_a_role_is_an_empty_list() -> None:
    variables = {"fleet_runs": None, "fleet_limits": None, "fleet_python": None, "mine": None}
    fill_empty_sections(variables)
    assert variables == {"fleet_runs": [], "fleet_limits": {}, "fleet_python": None, "mine": None}


def test_each_name_has_its_file(tmp_path: Path) -> None:
    file = tmp_path / "group_vars" / "all" / "fleet.yml"
    file.parent.mkdir(parents=True)
    file.write_text("training_run_runs: []\n")
    (tmp_path / "fleet.tpu.yml").write_text("")
    found = names_by_file(DataLoader(), [str(tmp_path / "fleet.tpu.yml")])
    assert found == {"training_run_runs": str(file)}
