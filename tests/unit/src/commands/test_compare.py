"""What `tpu-fleet compare` prints and writes of what is known."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tpu_fleet.commands import compare as command
from tpu_fleet.commands.compare import NO_PARQUET, Compared, compare, differences, key_of, table_of
from tpu_fleet.history.declared import PREFIX
from tpu_fleet.history.record import HISTORY
from tpu_fleet.history.store import Event, History, Look, Point
from tpu_fleet.workers.ask.run_view import RunView
from tpu_fleet.workers.inventory.ansible_config import inventory_sources, state_of

NOW = time.time()


def view(slice_name: str, run: str, state: str) -> dict[str, object]:
    return {"run": run, "slice": slice_name, "state": state, "hosts": [slice_name], "step": 90}


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs on slices, one of them removed, and one without numbers."""
    env = {"ANSIBLE_INVENTORY": str(tmp_path / "inv"), "TPU_FLEET_STATE_DIR": str(tmp_path / "s")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    path = state_of(env, inventory_sources(env, Path.cwd())) / HISTORY
    points = [
        Point(slice_name, run, key, NOW - 1000 + 10 * step, step, start / (1 + step))
        for slice_name, run, start in (("pair", "digits", 2.0), ("solo", "digits", 4.0))
        for key in ("loss", "lr")
        for step in range(0, 100, 10)
    ]
    points += [Point("solo", "old", "train/loss", NOW - 5000 + at, at, 3.0) for at in (1, 2)]
    facts = {
        "run:pair/digits": view("pair", "digits", "running"),
        "run:solo/digits": view("solo", "digits", "succeeded"),
        "run:solo/old": view("solo", "old", "removed"),
        "run:solo/mute": view("solo", "mute", "failed"),
        f"{PREFIX}pair/digits": {"command": "python a.py", "slice type": "v4-16"},
        f"{PREFIX}solo/digits": {"command": "python b.py", "slice type": "v4-8"},
    }
    kept = History(path)
    kept.add(Look(NOW, facts=facts, points=points))
    kept.close()
    return path


def said(*words: str | Path) -> Result:
    return CliRunner().invoke(compare, ["--known", *map(str, words)])


def test_a_chart_a_table_and_what_differs(history: Path) -> None:
    done = said("digits")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "loss by step"
    chart = "\n".join(lines[1:17])
    assert "a" in chart
    assert "b" in chart
    table = [line.split() for line in lines if line.startswith(("a ", "b "))]
    assert table == [
        ["a", "digits", "pair", "running", "90", "0.02198", "0.02198", "2"],
        ["b", "digits", "solo", "succeeded", "90", "0.04396", "0.04396", "4"],
    ]
    assert done.output.endswith(
        "What differs\ncommand\n  a  python a.py\n  b  python b.py\n"
        "slice type\n  a  v4-16\n  b  v4-8\n"
    )


def test_long_declarations_are_broken_between_words() -> None:
    path = "/" + "p" * 90
    told = [f"python train.py --steps 600 --hidden {n} --step-seconds 0.05" for n in (1, 2)]
    told[1] += f" {path}"
    found = [
        Compared(letter, RunView.from_dict(view("pair", "r", "running")), "", (), [], {"c": one})
        for letter, one in zip("ab", told, strict=True)
    ]
    assert differences(found, 60) == [
        "c",
        "  a  python train.py --steps 600 --hidden 1 --step-seconds",
        "     0.05",
        "  b  python train.py --steps 600 --hidden 2 --step-seconds",
        "     0.05",
        f"     {path}",
    ]


def test_removed_runs_count_and_their_declaration_may_be_unknown(history: Path) -> None:
    done = said("pair/digits", "old", "mute")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("loss and train/loss by step\n")
    assert "removed" in done.output
    assert "no number of it is known" in done.output
    assert "What was declared of solo/old, solo/mute is not known.\n" in done.output


def test_another_number_over_time(history: Path) -> None:
    done = said("digits", "--slice", "pair", "--key", "lr", "--by", "time")
    assert done.output.startswith("lr by time\n")
    assert "solo" not in done.output
    done = said("digits", "old", "--key", "train")
    assert done.exit_code == 0
    assert "it has no such number, but loss, lr" in done.output


@pytest.mark.parametrize("how", [[], ["--json"], ["--csv", "points.csv"]])
def test_a_number_that_no_run_has_is_refused(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = said("digits", "--key", "los_s", *how)
    says = "Error: There is no number los_s. Did you mean loss? There is loss, lr.\n"
    assert (done.exit_code, done.output) == (1, says)
    assert not (tmp_path / "points.csv").exists()
    # Without numbers at all there is none to choose.
    assert said("mute", "--key", "lr").exit_code == 0


def test_a_file_has_all_points(history: Path, tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("older")
    assert said("digits", "--csv", file).exit_code == 0
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 20
    assert (rows[1]["slice"], rows[1]["key"], rows[1]["step"]) == ("pair", "loss", "10")
    assert float(rows[1]["seconds"]) == pytest.approx(100.0)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["points.csv"]
    done = said("digits", "--csv", tmp_path / "nowhere" / "x.csv")
    assert done.exit_code == 2
    assert f"Invalid value for '--csv': '{tmp_path}/nowhere/x.csv': there is no" in done.output
    # None that the command makes on the way is named.
    (tmp_path / ".full.csv.new").mkdir()
    done = said("digits", "--csv", tmp_path / "full.csv")
    assert done.exit_code == 1
    assert f"--csv {tmp_path}/full.csv cannot be written: Is a directory." in done.output


def test_parquet_needs_what_is_not_there(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = said("digits", "--parquet", tmp_path / "points.parquet")
    assert (done.exit_code, done.output) == (
        1, f"Error: {NO_PARQUET.format(python=sys.executable)}\n",
    )  # fmt: skip


def test_parquet_gets_the_same_points(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Arrow:
        @staticmethod
        def table(columns: dict[str, list[object]]) -> dict[str, list[object]]:
            return columns

        @staticmethod
        def write_table(table: dict[str, list[object]], path: str) -> None:
            Path(path).write_text(json.dumps(table))

    monkeypatch.setattr(command, "parquet", lambda: (Arrow, Arrow))
    file = tmp_path / "points.parquet"
    assert said("digits", "--parquet", file).exit_code == 0
    columns = json.loads(file.read_text())
    assert (len(columns["value"]), columns["value"][0], columns["step"][1]) == (20, 2.0, 10)


def test_json(history: Path) -> None:
    told = json.loads(said("digits", "old", "--json").output)
    assert [(one["slice"], one["key"], len(one["points"])) for one in told["runs"]] == [
        ("pair", "loss", 10),
        ("solo", "loss", 10),
        ("solo", "train/loss", 2),
    ]
    assert told["differs"] == ["command", "slice type"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("digit",), "There is no run digit. Did you mean digits? There is digits, mute, old."),
        (("old", "--slice", "pair"), "old is not on pair, but on solo."),
    ],
)
def test_a_run_that_no_look_has_seen(history: Path, words: tuple[str, ...], says: str) -> None:
    done = said(*words)
    assert (done.exit_code, done.output) == (1, f"Error: {says}\n")


def test_a_step_that_was_done_again_counts_once(history: Path) -> None:
    kept = History(history)
    again = Point("pair", "digits", "loss", NOW - 1.0, 50, 9.0)
    kept.add(Look(NOW, points=[again]))
    [one] = command.chosen(kept, ["pair/digits"], [], "loss")
    kept.close()
    # What the attempt before had done beyond step 50 is no part of the run any more.
    assert [step for step, _value in one.along("step")] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    assert dict(one.along("step"))[50.0] == 9.0
    assert len(one.along("time")) == 11
    row = table_of([one]).rows[0]
    assert "9" in str(row)
    assert "0.02198" not in str(row)


def test_what_was_done_before_a_restart_at_an_earlier_step_counts_no_more(history: Path) -> None:
    """Not each step has a point: the next attempt began at 35, and its first point is of 80."""
    kept = History(history)
    begun = [
        Event(NOW - 1000 * times, "pair", "digits", 0, "attempt-started", attempt)
        for times, attempt in ((2, 1), (0.002, 2))
    ]
    first = Event(NOW - 1.5, "pair", "digits", 0, "first-step", 2, {"first_step": 35})
    kept.add(Look(NOW, events=[*begun, first]))

    def steps() -> list[float]:
        [one] = command.chosen(kept, ["pair/digits"], [], "loss")
        return [step for step, _value in one.along("step")]

    assert steps() == [0.0, 10.0, 20.0, 30.0]
    kept.add(Look(NOW, points=[Point("pair", "digits", "loss", NOW - 1.0, 80, 9.0)]))
    assert steps() == [0.0, 10.0, 20.0, 30.0, 80.0]
    kept.close()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["lr", "loss", "aux/loss"], "loss"),
        (["Train/Loss", "lr", "step"], "Train/Loss"),
        (["lr"], ""),
        (["step"], ""),
    ],
)
def test_which_number_is_meant(names: list[str], found: str) -> None:
    assert key_of(names, "loss") == found
