"""`tpu-fleet checkpoints`, against a server of objects and without a slice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import checkpoints as core
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import Thing
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target
from click.testing import CliRunner, Result
from object_server import Objects, serving

from tpu_fleet.commands import checkpoints as command
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.workers.ask.checkpoint_folders import FolderContents
from tpu_fleet.workers.inventory.hosts import Known

AT = time.time() - 7200.0
RUNS: list[dict[str, Any]] = [
    {"name": "digits", "slices": ["pair"], "user": "alice", "checkpoint_dir": "gs://lab/digits"},
    {"name": "words", "slices": ["solo", "gone"], "user": "bob", "checkpoint_dir": "/mnt/words"},
    {"name": "none", "slices": ["solo"], "user": "bob", "checkpoint_dir": None},
]


class FleetFile:
    """An inventory that says runs."""

    def said(self, name: str, otherwise: Any = None) -> Any:
        return RUNS if name == "fleet_runs" else otherwise


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    target = Target("solo", "10.0.0.1", 22, "alice")
    fleet = Fleet({"solo": target}, {"tpu_slice_solo": ("solo",), "tpu_slice_gone": ()})
    known = Known(Path("/none"), fleet)
    with serving(Objects()) as objects:
        monkeypatch.setattr(command, "read_inventory", FleetFile)
        monkeypatch.setattr(command, "client_of", lambda _: Client("lab", endpoint=objects.url))
        monkeypatch.setattr(command, "known_fleet", lambda _: known)
        monkeypatch.setattr(command, "ask_for_folder", lambda *_: FolderContents())
        yield objects


def three(lab: Objects) -> None:
    lab.step("digits/100", AT - 60, mark="")
    lab.step("digits/200", AT)
    lab.step("digits/300", AT + 60, mark="")


def said(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(command.checkpoints, words, input=answer)


def told(*words: str) -> dict[str, Any]:
    (run,) = json.loads(said("digits", "--json", *words).stdout)["runs"]
    return dict(run)


def test_a_bucket_without_a_slice(lab: Objects) -> None:
    three(lab)
    lab.put("digits/200/d/big", AT - 1, 600 << 30)
    done = said("digits")
    assert done.exit_code == 0, done.output
    rows = [line.split()[:3] for line in done.output.splitlines()]
    assert ["digits", "100", "leftover"] in rows
    assert ["digits", "200", "whole"] in rows
    assert ["digits", "300", "unfinished"] in rows
    assert "$12.00" in done.output
    assert "gs://lab/digits: 3 checkpoints, 600.0 GiB, $12.00 a month, 1 leftover of" in done.output


def test_no_line_is_wider_than_the_terminal(lab: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    three(lab)
    lab.put("digits/200/d/big", AT - 1, 600 << 30)
    terminal = lambda: PlainConsole(force_terminal=True, width=80, color_system=None)  # noqa: E731
    monkeypatch.setattr(command, "wide_console", terminal)
    lines = said("digits").output.splitlines()
    assert max(map(len, lines)) <= 80
    whole = " ".join(" ".join(lines).split())
    assert "digits: gs://lab/digits: 3 checkpoints, 600.0 GiB, $12.00 a month, 1 leftover" in whole


def test_what_programs_get(lab: Objects) -> None:
    three(lab)
    run = told()
    assert (run["place"], run["bytes"], run["problem"]) == ("gs://lab/digits", 910, None)
    whole = run["checkpoints"][1]
    assert whole == {
        "name": "200", "step": 200, "state": "whole", "leftover": False, "bytes": 310,
        "objects": 4, "time": whole["time"], "seconds": pytest.approx(time.time() - AT, abs=60),
        "usd_per_month": pytest.approx(0.02 * 310 / (1 << 30)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "answer", "goes"),
    [((), "y\n", True), ((), "n\n", False), ((), "", False), (("--yes",), "", True)],
)
def test_leftovers_are_shown_and_deleted_after_a_question(
    lab: Objects, words: tuple[str, ...], answer: str, goes: bool
) -> None:
    three(lab)
    before = set(lab.items)
    done = said("digits", "--delete-leftovers", *words, answer=answer)
    gone = {name for name in before if name.startswith("digits/100/")}
    assert before - set(lab.items) == (gone if goes else set())
    assert done.output.index("leftover") < done.output.index("200")
    assert ("Deleted 1 leftover." in done.output) is goes
    assert ("Delete 1 leftover of 300 bytes for ever?" in done.output) is (not words)


def test_a_deletion_for_programs(lab: Objects) -> None:
    three(lab)
    run = told("--delete-leftovers", "--yes")
    assert (run["deleted"], len(run["checkpoints"])) == (["100"], 2)
    assert said("--json", "--delete-leftovers").exit_code == 2
    assert said("--yes").exit_code == 2


def test_a_deletion_that_fails_is_named_and_the_others_are_done(
    lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(lab)
    lab.step("digits/50", AT - 90, mark="")
    looked = command.CheckpointFolder.contents

    def then_written(folder: Any) -> Any:
        found = looked(folder)
        lab.put("digits/50/d/7", AT + 100)
        return found

    monkeypatch.setattr(command.CheckpointFolder, "contents", then_written)
    done = said("digits", "--delete-leftovers", "--yes")
    assert (done.exit_code, "50 was written to meanwhile" in done.output) == (1, True)
    assert "Deleted 1 leftover." in done.output
    assert "digits/50/d/0" in lab.items
    assert "digits/100/d/0" not in lab.items


def test_nothing_left_over_is_no_question(lab: Objects) -> None:
    lab.step("digits/200", AT)
    done = said("digits", "--delete-leftovers")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "Deleted 0 leftovers.")


def test_a_bucket_that_refuses(lab: Objects) -> None:
    lab.refusal = (403, "alice does not have storage.objects.list access \x1b[31m")
    done = said("digits")
    assert done.exit_code == 1
    assert "digits: gs://lab/digits: " in done.output
    assert "storage.objects.list" in done.output
    assert "\x1b" not in done.output


def test_folders_are_seen_through_a_worker(lab: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str, Mapping[str, float]]] = []

    def answer(
        _known: Known, worker: str, user: str, folder: str, delete: Mapping[str, float]
    ) -> FolderContents:
        asked.append((worker, user, folder, dict(delete)))
        names = {"1.orbax-checkpoint-tmp-1/d": AT - 60, "2/d": AT}
        things = [
            Thing(name, 5, at) for name, at in names.items() if name.split("/")[0] not in delete
        ]
        return FolderContents(core.judged(core.units_of(things), renames=True))

    monkeypatch.setattr(command, "ask_for_folder", answer)
    done = said("words", "--delete-leftovers", "--yes")
    name = "1.orbax-checkpoint-tmp-1"
    assert [one[3] for one in asked] == [{}, {name: pytest.approx(AT - 60)}]
    assert asked[0][:3] == ("solo", "bob", "/mnt/words")
    assert (
        "words: /mnt/words on solo: 2 checkpoints, 10 bytes, 1 leftover of 5 bytes" in done.output
    )
    assert "slice gone does not exist now" in done.output
    assert "Deleted 1 leftover." in done.output
    assert done.exit_code == 1


def test_a_run_without_checkpoints_is_no_failure(lab: Objects) -> None:
    done = said("none")
    assert (done.exit_code, done.output) == (0, "none: it declares no folder for checkpoints\n")


def test_an_unknown_run_is_named(lab: Objects) -> None:
    done = said("digit")
    assert (done.exit_code, "Did you mean digits?" in done.output) == (1, True)
