"""Which file is this fleet's, and which of its workers are meant."""

from __future__ import annotations

import json
import random
from pathlib import Path

import click
import jinja2
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import parse_fleet

from tpu_fleet.workers.ansible_config import inventory_sources
from tpu_fleet.workers.ask import read_known
from tpu_fleet.workers.hosts import Known, fold, in_order, select, unfold

NAMES = ["solo", "pair-w0", "pair-w1", *(f"pod-w{number}" for number in range(12))]
TEXT = (
    '# Inventory: ["/fleet/inventory"]\n'
    f"# Group tpu: {' '.join(NAMES)}\n"
    "# Group tpu_slice_solo: solo\n"
    "# Group tpu_slice_pair: pair-w0 pair-w1 pair-w2\n"
    f"# Group tpu_slice_pod: {' '.join(NAMES[3:])}\n"
    "# Group tpu_leaders: solo pair-w0 pod-w0\n"
    "# Group tpu_unavailable: pair-w2\n" + "".join(f"Host {name}\n" for name in NAMES)
)
KNOWN = Known(Path("/state/ssh_config"), parse_fleet(TEXT))


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
    ("slices", "pattern", "says"),
    [
        (["trio"], None, "There is no slice trio. There is pair, pod, solo."),
        ([], "nobody", "No worker and no group is called nobody."),
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


def test_only_this_fleets_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environment = {"TPU_FLEET_STATE_DIR": str(tmp_path)}
    assert read_known(["/fleet/inventory"], environment) is None
    (tmp_path / "ssh_config").write_text(TEXT)
    known = read_known(["/fleet/inventory"], environment)
    assert known is not None
    assert set(known.fleet.targets) == set(NAMES)
    assert read_known(["/other/inventory"], environment) is None
    # A file of before it said whose it is.
    (tmp_path / "ssh_config").write_text(TEXT.partition("\n")[2])
    assert read_known(["/fleet/inventory"], environment) is None


def test_the_template_says_what_is_read() -> None:
    """The two must not drift apart: the template's own lines, as jinja writes them."""
    root = Path(__file__).parents[4]
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
    environment.filters.update(to_json=json.dumps, expanduser=str)
    template = environment.from_string((root / "playbooks/templates/ssh_config.j2").read_text())
    text = template.render(
        fleet_ssh_config="/state/ssh_config",
        ansible_inventory_sources=["/a fleet/inventory"],
        groups={"all": ["a"], "ungrouped": [], "tpu": ["a"], "tpu_slice_a": ["a"]},
        fleet_machines=[{"host": "a", "address": "10.0.0.1", "options": {"Port": 23}}],
        fleet_ssh_user="me",
        fleet_ssh_private_key_file="/key",
    )
    fleet = parse_fleet(text)
    assert fleet.inventory == ("/a fleet/inventory",)
    assert fleet.groups == {"tpu": ("a",), "tpu_slice_a": ("a",)}
    assert (fleet.targets["a"].address, fleet.targets["a"].port) == ("10.0.0.1", 23)
