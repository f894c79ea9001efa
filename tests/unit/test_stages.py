"""The stages of scripts/run_tests.py, and the record of those that CI leaves out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import run_tests  # noqa: E402 - scripts are no package
from cpu_meter import CpuMeter  # noqa: E402 - as above
from stage_record import StageRecord  # noqa: E402 - as above


class Checkout:
    """A repository with two tested folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("roles", "cloud", "tests"):
            (folder / name).mkdir()
        self.git("init", "-q")
        self.write("roles/main.yml", "one")
        self.write("cloud/api.py", "one")

    @property
    def record(self) -> StageRecord:
        return StageRecord(self.folder, {"siege": ("roles",), "clients": ("cloud",)})

    def git(self, *words: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ("git", *name, *words), cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, file: str, text: str, commit: bool = True) -> None:
        (self.folder / file).write_text(text)
        if commit:
            self.git("add", ".")
            self.git("commit", "-q", "-m", text)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def passed(record: StageRecord, stage: str) -> None:
    record.passed(stage, record.committed(stage))


def test_a_stage_without_an_entry_has_not_passed(checkout: Checkout) -> None:
    assert checkout.record.stale() == ["siege: no record", "clients: no record"]


def test_a_stage_that_passed_is_reported_again_when_its_files_change(checkout: Checkout) -> None:
    for stage in ("siege", "clients"):
        passed(checkout.record, stage)
    assert checkout.record.stale() == []
    head = checkout.git("rev-parse", "--short=8", "HEAD")
    checkout.write("roles/main.yml", "two")
    checkout.write("cloud-notes", "two")
    checkout.write("roles/main.yml", "three")
    (line,) = checkout.record.stale()
    assert line.startswith("siege: passed last on 2")
    assert line.endswith(f" at {head}; commits since to what it tests: 2")


def test_an_entry_outlives_a_rebase(checkout: Checkout) -> None:
    passed(checkout.record, "siege")
    file = checkout.record.file
    entry = json.loads(file.read_text())
    entry["siege"]["commit"] = "0" * 8
    file.write_text(json.dumps(entry))
    assert checkout.record.stale() == ["clients: no record"]
    checkout.write("roles/main.yml", "two")
    assert "commits since" not in checkout.record.stale()[0]


def test_what_is_not_committed_is_not_recorded(checkout: Checkout) -> None:
    checkout.write("roles/main.yml", "two", commit=False)
    passed(checkout.record, "siege")
    passed(checkout.record, "clients")
    assert checkout.record.stale() == ["siege: no record"]


def test_what_changed_while_the_stage_ran_is_not_recorded(checkout: Checkout) -> None:
    began_with = checkout.record.committed("siege")
    checkout.write("roles/main.yml", "two")
    checkout.record.passed("siege", began_with)
    assert not checkout.record.file.exists()


def test_a_stage_of_ci_needs_no_entry(checkout: Checkout) -> None:
    passed(checkout.record, "unit")
    assert not checkout.record.file.exists()


@pytest.mark.parametrize("stage", run_tests.MORE, ids=lambda stage: str(stage.name))
def test_each_stage_that_ci_leaves_out_names_the_files_it_tests(stage: Any) -> None:
    assert stage.tests
    assert [path for path in stage.tests if not (ROOT / path).exists()] == []


def test_each_test_that_ci_leaves_out_is_in_a_stage() -> None:
    files = [
        path
        for folder in ("tests", "local_cloud/tests")
        for path in (ROOT / folder).rglob("test_*.py")
        if re.search(r"mark[.]night\b", path.read_text()) and path != Path(__file__)
    ]
    assert len(files) > 10
    words = {ROOT / word for stage in run_tests.MORE for word in stage.argv}
    assert [path for path in files if not words & {path, *path.parents}] == []


def test_each_test_is_in_one_stage_of_ci_or_in_one_that_it_leaves_out() -> None:
    places = {
        stage.name: {ROOT / word for word in (*stage.argv, *stage.tests) if word != "."}
        for stage in (*run_tests.FULL, *run_tests.MORE)
    }
    in_ci = [stage.name for stage in run_tests.FULL]
    files = [
        path
        for folder in ("tests", "local_cloud/tests")
        for path in ROOT.glob(f"{folder}/**/test_*.py")
    ]
    wrong = {}
    for path in files:
        stages = [name for name, words in places.items() if words & {path, *path.parents}]
        ours = [name for name in stages if name in in_ci]
        if len(ours) > 1 or not stages:
            wrong[str(path.relative_to(ROOT))] = ours
    assert wrong == {}


def test_no_stage_of_ci_runs_what_is_left_for_the_night() -> None:
    tests = [stage for stage in run_tests.FULL if stage.argv[0] == "pytest"]
    assert len(tests) > 10
    assert [stage.name for stage in tests if "not night" not in stage.argv] == []


def test_the_table_of_contributing_names_each_of_them() -> None:
    rows = [
        line.split("|")[1]
        for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    named = {word.strip(" `") for row in rows for word in row.split(",")}
    assert {stage.name for stage in run_tests.MORE} - named == set()


# How a test or a script gives a cloud a port.
PORT = re.compile(r"(?:PORT\b[^\n]*?[=:,][^\n]*?|--(?:grpc-)?port[= ])\"?\b(8[4-9]\d\d)\b")


def ports(*files: Path) -> list[str]:
    return [port for path in files for port in sorted(set(PORT.findall(path.read_text())))]


def test_no_two_stages_use_one_port() -> None:
    for folder in ("cloud", "machines", "support", "worlds"):
        assert ports(*(ROOT / "tests" / folder).rglob("*.py")) == []
    # Each step of molecule has to find the cloud of the step before.
    scripts = ports(*(path for path in (ROOT / "scripts").iterdir() if path.is_file()))
    assert {"8472", "8477"} <= set(scripts)
    assert len(scripts) == len(set(scripts))


# Uses 0.2 CPU seconds, however busy the computer is, and then writes a file.
WORK = (
    "import time; [None for _ in iter(lambda: time.process_time() > 0.2, True)]; open('done', 'w')"
)


def test_cpu_seconds_are_those_of_the_command(tmp_path: Path) -> None:
    script = f"{WORK}\nexit(3)"
    code, used = CpuMeter("direct").run((sys.executable, "-c", script), cwd=tmp_path)
    assert code == 3
    assert 0.2 <= used < 2
    assert (tmp_path / "done").exists()


def test_cpu_seconds_of_a_process_that_the_command_left_behind_count(tmp_path: Path) -> None:
    script = '(setsid "$0" -c "$1" &); while [ ! -e done ]; do sleep 0.1; done'
    meter = CpuMeter("left")
    code, used = meter.run(("sh", "-c", script, sys.executable, WORK), cwd=tmp_path)
    assert code == 0
    assert used >= 0.2 or not meter.group


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_tests, "LOGS", tmp_path)
    return tmp_path


def shell(name: str, script: str) -> Any:
    return run_tests.Stage(name, ("sh", "-c", script))


def test_a_stage_that_failed_beside_others_runs_once_more_alone(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = logs / "second"
    stages = (
        shell("good", "echo good"),
        shell("racy", f"test -e {mark} || {{ touch {mark}; echo a race; exit 1; }}"),
        shell("bad", "echo broken; exit 3"),
    )
    monkeypatch.setattr(run_tests, "FULL", stages)
    results: Any = {}
    for stage in stages:
        run_tests.run(stage, results, {})
    assert run_tests.run_again(results, {}) == ["racy"]
    assert {name: code for name, (code, *_) in results.items()} == {"good": 0, "racy": 0, "bad": 3}
    assert "a race" in (logs / "racy.first.log").read_text()
    assert not (logs / "good.first.log").exists()


def test_what_fills_runs_one_at_a_time_beside_the_others(logs: Path) -> None:
    """Each of five at once waits for all of them and for the first that fills; no two of these."""
    there = [f"test -e {logs}/{number}" for number in range(run_tests.AT_ONCE)]
    wait = f"until {' && '.join(there)} && test -e {logs}/filled; do sleep 0.05; done"
    fills = [
        run_tests.Stage(
            name,
            ("sh", "-c", f"mkdir {logs}/alone && touch {logs}/filled && rmdir {logs}/alone"),
            fills=True,
        )
        for name in ("lint", "types")
    ]
    waiting = [
        shell(f"w{number}", f"touch {logs}/{number}; {wait}") for number in range(run_tests.AT_ONCE)
    ]
    results: Any = {}
    run_tests.run_side_by_side([*waiting, *fills], results, {})
    assert {code for code, *_ in results.values()} == {0}
    assert len(results) == run_tests.AT_ONCE + 2


def test_many_stages_that_failed_do_not_run_again(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = tuple(shell(f"bad{number}", "exit 1") for number in range(run_tests.AGAIN + 1))
    monkeypatch.setattr(run_tests, "FULL", stages)
    results: Any = {}
    for stage in stages:
        run_tests.run(stage, results, {})
    assert run_tests.run_again(results, {}) == []
    assert not list(logs.glob("*.first.log"))
