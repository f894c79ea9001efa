"""The table of names covers the fleet file, and says where each variable of a role comes from."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.fleet import VARIABLES
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.drill import (
    NUMBERS as DRILL_NUMBERS,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    PLAYBOOK_VARIABLES,
    Problem,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    GONE,
    MERGED,
    PARTS,
    either,
    fleet_name,
    in_fleet_file,
    old_names,
    own_name,
    own_names,
    with_names,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    options_of,
    role_names,
    role_options,
)

ROOT = Path(__file__).parents[5]
OF_PLAYBOOKS = "The playbooks of the collection give these their values:"


def given(role: str) -> set[str]:
    """Return the variables of a role that its README gives to the playbooks."""
    text = (ROOT / "roles" / role / "README.md").read_text().partition("<!-- /variables")[0]
    return set(re.findall(r"(?m)^`(\w+)`", text.partition(OF_PLAYBOOKS)[2]))


@pytest.mark.parametrize("role", role_names())
def test_each_variable_of_a_role_has_a_name_or_comes_from_the_playbooks(role: str) -> None:
    options = set(options_of(role))
    named = options & FLEET_NAMES.keys()
    assert named | given(role) == options
    assert named & given(role) == set()


def test_the_table_has_no_variable_that_no_role_has() -> None:
    assert set(role_options()) >= FLEET_NAMES.keys()


def test_names_begin_alike_and_are_those_of_nothing_else() -> None:
    names = set(FLEET_NAMES.values())
    assert all(re.fullmatch(r"fleet_[a-z_]+", name) for name in names)
    assert names & {*VARIABLES, *PLAYBOOK_VARIABLES} == {FLEET_NAMES[own] for own in PARTS}
    playbooks = "".join(path.read_text() for path in (ROOT / "playbooks").rglob("*.yml"))
    set_there = re.findall(r"(?m)^(?: *register: | *)(fleet_\w+)(?=:|$)", playbooks)
    assert "fleet_checked" in set_there
    assert names & (set(set_there) - {"fleet_shell_packages"}) == set()


def test_variables_with_one_name_are_alike() -> None:
    options = role_options()
    for name in set(FLEET_NAMES.values()):
        alike = [options[own] for own, other in FLEET_NAMES.items() if other == name]
        kinds = {
            (one["type"], one.get("elements"), str(one.get("choices")), bool(one.get("no_log")))
            for one in alike
        }
        assert len(kinds) == 1, name
        assert len(alike) == 1 or not alike[0].get("options"), name


def test_names_lead_both_ways() -> None:
    assert fleet_name("training_run_runs") == "fleet_runs"
    assert own_name("fleet_runs") == "training_run_runs"
    assert own_names("training_run")["fleet_runs"] == "training_run_runs"
    assert fleet_name("training_run_peers") == "training_run_peers"
    # Of a name that several roles take, none is the one.
    assert own_name("fleet_apt_lock_timeout") == "fleet_apt_lock_timeout"
    assert own_names("git_access")["fleet_apt_lock_timeout"] == "git_access_apt_lock_timeout"
    assert in_fleet_file({"training_run_runs": 1, "mine": 2}) == {"fleet_runs": 1, "mine": 2}


def test_a_role_takes_its_own_name_before_that_of_the_fleet_file() -> None:
    both = {"training_run_runs": [1], "fleet_runs": [2]}
    assert either(both, "training_run_runs") == [1]
    assert either({"fleet_runs": [2]}, "training_run_runs") == [2]
    assert either({}, "training_run_runs", []) == []


def test_problems_name_what_was_written() -> None:
    problem = Problem("fleet_runs[0].user", "bob", "is not in fleet_users", "See fleet_usersx")
    told = with_names(problem, {"fleet_runs": "training_run_runs", "fleet_users": "people"})
    assert str(told) == "training_run_runs[0].user = 'bob': is not in people. See fleet_usersx."


def test_old_names_are_refused_all_at_once_with_the_new_ones() -> None:
    problems = old_names(role_options(), lambda name: f"{name}.yml")
    assert [problem.field for problem in problems] == list(FLEET_NAMES)
    for problem in problems:
        new = f"Rename it to {FLEET_NAMES[problem.field]}"
        assert problem.remedy == MERGED.get(problem.field, new)
        assert f"in {problem.field}.yml" in problem.message
    (alone,) = old_names(["training_run_runs", "fleet_runs", "mine", "training_run_slice"])
    assert (
        str(alone)
        == "training_run_runs: is no variable of the fleet file. Rename it to fleet_runs."
    )


def test_the_script_renames_whole_words_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.yml", tmp_path / "new.yml"
    old.write_text("# host_base_locale\ntraining_run_runs: []\nmy_training_run_runs: 1\n")
    new.write_text("fleet_runs: []\n")
    runpy.run_path(str(ROOT / "scripts/rename_fleet_names.py"))["main"]([str(old), str(new)])
    assert old.read_text() == "# fleet_locale\nfleet_runs: []\nmy_training_run_runs: 1\n"
    assert capsys.readouterr().out == f"{old}\n"


def test_the_script_names_the_lines_that_are_moved_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.yml"
    text = "fleet_slices:\n  - name: a\n    data_disks: []\ndata_disk_disks: []\n"
    old.write_text(text)
    runpy.run_path(str(ROOT / "scripts/rename_fleet_names.py"))["main"]([str(old)])
    assert old.read_text() == text
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{old}:3: data_disks: Name the slice in slices")
    assert second == f"{old}:4: data_disk_disks: {MERGED['data_disk_disks']}."


def test_the_script_moves_keys_and_values_of_entries(capsys: pytest.CaptureFixture[str]) -> None:
    old = """\
host_base_journal_max_mb: 500  # stays
fleet_slices:
  - {name: solo, boot_disk_size_gb: "200", idle_minutes: 0, tier: preemptible}
fleet_disks: [{name: a, size_gb: 500}]
fleet_runs:
  - command: 'size_gb: 5'
    env: {size_gb: 5}
    min_free_bytes: 1073741824
    hang_seconds: "{{ patience }}"
fleet_boards: [{memory_max: 8G}, {memory_max: 25%}]
fleet_users: [{sudo: none}, {sudo: all}]
fleet_locale: ''
fleet_torch_index_url:
fleet_ray_chips: -1
mine: {size_gb: 1}
"""
    moved = runpy.run_path(str(ROOT / "scripts/rename_fleet_names.py"))["moved"]
    new = moved(old, "fleet.yml")
    assert (
        new
        == """\
fleet_journal_max_size: 500MiB  # stays
fleet_slices:
  - {name: solo, boot_disk_size: 200GiB, idle_after: null, tier: spot}
fleet_disks: [{name: a, size: 500GiB}]
fleet_runs:
  - command: 'size_gb: 5'
    env: {size_gb: 5}
    min_free: 1GiB
    hang_after: "{{ patience }}"
fleet_boards: [{memory_max: 8GiB}, {memory_max: 25%}]
fleet_users: [{sudo: null}, {sudo: all}]
fleet_locale: null
fleet_torch_index_url:
fleet_ray_chips: null
mine: {size_gb: 1}
"""
    )
    assert moved(new) == new
    told = capsys.readouterr().out
    assert told == "fleet.yml: fleet_runs.hang_seconds: give hang_after its new value: NUMBERs\n"


def test_variables_that_are_gone_are_refused_with_what_took_their_place() -> None:
    known = {*VARIABLES, *PLAYBOOK_VARIABLES, *FLEET_NAMES.values(), *DRILL_NUMBERS}
    assert {new.split(":")[0] for new in GONE.values()} <= known
    assert not GONE.keys() & (known | FLEET_NAMES.keys())
    assert not MERGED.keys() & known
    assert [one.remedy for one in old_names(["fleet_disk_mounts"])] == [*set(MERGED.values())]
    for name, new in GONE.items():
        (problem,) = old_names([name])
        assert problem.remedy.startswith(f"Rename it to {new.split(':')[0]}")
        assert ("give its value a unit" in problem.remedy) == ("{}" in new)
