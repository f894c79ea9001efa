"""Which file is this fleet's, and which of its workers are meant."""

from __future__ import annotations

import random
from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import (
    list_path,
    list_text,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.workers.inventory.ansible_config import inventory_sources
from tpu_fleet.workers.inventory.hosts import Known, fold, in_order, part_of, select, unfold
from tpu_fleet.workers.inventory.lookup import read_known

NAMES = ["solo", "pair-w0", "pair-w1", *(f"pod-w{number}" for number in range(12))]
GROUPS = {
    "tpu": tuple(NAMES),
    "tpu_slice_solo": ("solo",),
    "tpu_slice_pair": ("pair-w0", "pair-w1", "pair-w2"),
    "tpu_slice_pod": tuple(NAMES[3:]),
    "tpu_leaders": ("solo", "pair-w0", "pod-w0"),
    "tpu_unavailable": ("pair-w2",),
}
TARGETS = {name: Target(name, "::1") for name in NAMES}
KNOWN = Known(Path("/state/ssh_config"), Fleet(TARGETS, GROUPS, ("/fleet/inventory",)))


@pytest.mark.parametrize(
    ("slices", "pattern", "wanted"),
    [
        (["solo"], None, "solo"),
        (["solo", "pair"], None, "pair-w[0-2],solo"),
        (["solo,pair"], None, "pair-w[0-2],solo"),
        ([], "pair-w1", "pair-w1"),
        ([], "pod-w[2-4,11]", "pod-w[2-4,11]"),
        ([], "pod-w[2-4,11],solo", "pod-w[2-4,11],solo"),
        ([], "pod-w1*", "pod-w[1,10-11]"),
        ([], "tpu_leaders", "pair-w0,pod-w0,solo"),
        ([], "tpu_leaders:!solo", "pair-w0,pod-w0"),
        ([], "!tpu_slice_pod", "pair-w[0-2],solo"),
        ([], "tpu_slice_*:&tpu_leaders", "pair-w0,pod-w0,solo"),
        ([], "all,!pair-w*", "pod-w[0-11],solo"),
        (["pod"], "tpu_leaders", "pod-w0"),
        # What cannot be used is meant as well, or nobody would notice.
        ([], None, "pair-w[0-2],pod-w[0-11],solo"),
    ],
)
def test_who_is_meant(slices: list[str], pattern: str | None, wanted: str) -> None:
    assert fold(select(KNOWN, slices, pattern)) == wanted


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("tpu_slice_solo", " on slice solo"),
        ("tpu_slice_pair,solo", " on slices pair, solo"),
        ("pod-w[2-4]", " on pod-w[2-4]"),
        (None, ""),
    ],
)
def test_which_part_of_the_fleet_is_chosen(pattern: str | None, part: str) -> None:
    assert part_of(KNOWN.fleet, select(KNOWN, [], pattern)) == part


@pytest.mark.parametrize(
    ("slices", "pattern", "says"),
    [
        (["trio"], None, "There is no slice trio. There is pair, pod, solo."),
        ([], "nobody", "No worker and no group is called nobody. See tpu-fleet status."),
        ([], "pair-w9", "No worker and no group is called pair-w9. Did you mean pair-w2?"),
        ([], "pair", "pair is a slice; its workers are the group tpu_slice_pair."),
        ([], "all,!pair", "pair is a slice; its workers are the group tpu_slice_pair."),
        (["solo"], "pair-w0", "This selects no worker."),
        ([], "all:!tpu:!pair-w2", "This selects no worker."),
    ],
)
def test_nobody_is_meant(slices: list[str], pattern: str, says: str) -> None:
    with pytest.raises(click.ClickException) as error:
        select(KNOWN, slices, pattern)
    assert error.value.message == says


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["a"], "a"),
        (["w0", "w1", "w2", "w4", "w10", "w9"], "w[0-2,4,9-10]"),
        (["v4-8", "v4-16"], "v4-[8,16]"),
        (["w01", "w02"], "w01,w02"),
        (["a-w0.us-x", "a-w1.us-x", "b"], "a-w[0-1].us-x,b"),
        ([], ""),
    ],
)
def test_many_names_in_short(names: list[str], folded: str) -> None:
    random.Random(1).shuffle(names)  # noqa: S311 - repeatable, not secret
    assert fold(names) == folded


def test_what_was_folded_is_understood() -> None:
    assert unfold("pair-w[0-2,5].us-x") == [f"pair-w{number}.us-x" for number in (0, 1, 2, 5)]
    assert unfold("solo") == ["solo"]
    assert unfold("odd[a-c]") == ["odd[a-c]"]


def test_workers_in_the_order_of_people() -> None:
    assert in_order(["w10", "w9", "a", "w0"]) == ["a", "w0", "w9", "w10"]


# Whose file


def test_where_ansible_reads_its_inventory(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "ansible.cfg").write_text("[defaults]\ninventory = inventory, more.yml ; mine\n")
    assert inventory_sources({}, folder) == (f"{folder}/inventory", f"{folder}/more.yml")
    assert inventory_sources({"ANSIBLE_INVENTORY": "x.yml"}, folder) == (f"{folder}/x.yml",)
    other = tmp_path / "other.cfg"
    other.write_text("[defaults]\ninventory = /abs\n")
    assert inventory_sources({"ANSIBLE_CONFIG": str(other)}, folder) == ("/abs",)
    (folder / "ansible.cfg").write_text("[defaults]\nforks = 3\n")
    assert inventory_sources({}, folder) == ("/etc/ansible/hosts",)


def test_only_this_fleets_list_is_taken(tmp_path: Path) -> None:
    environment = {"TPU_FLEET_STATE_DIR": str(tmp_path)}
    assert read_known(["/fleet/inventory"], environment) is None
    path = list_path(["/fleet/inventory"], environment)
    path.parent.mkdir()
    path.write_text(list_text(KNOWN.fleet, KNOWN.path))
    assert read_known(["/fleet/inventory"], environment) == KNOWN
    assert read_known(["/other/inventory"], environment) is None
