"""What `tpu-fleet why` prints, keeps and exits with."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import evidence_of
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target
from click.testing import CliRunner, Result
from run_evidence import ALL_REDUCE, AT, CONNECT, QUEUE_GET, STEP, own, seen

from tpu_fleet.commands import many as many_command
from tpu_fleet.commands import why as why_command
from tpu_fleet.commands.why import why
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_evidence import NO_RUN, NOT_NOTED_HERE, Shown
from tpu_fleet.workers.inventory.hosts import NO_CONFIG, Known

FAST = {"step_age_s": 0.3, "log_age_s": 0.3}
HOSTS = ("pod-w0", "pod-w1", "pod-w2", "pod-w3")


def fleet(*hosts: str) -> Known:
    """Return a fleet in which names before `-w` are slices."""
    groups: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        group = f"tpu_slice_{host.rpartition('-w')[0]}"
        groups[group] = (*groups.get(group, ()), host)
    targets = {host: Target(host, "127.0.0.1") for host in hosts}
    return Known(NO_CONFIG, Fleet(targets, groups))


def answer(told: dict[str, Any], host: str | None = None) -> Shown:
    host = host or told["host"]
    return Shown(host, evidence_of(host, told), f"Run digits on {host}\nHF_TOKEN=abcdef\n")


class Workers:
    """Workers that answer with what a test says, look by look."""

    def __init__(self, *looks: Sequence[Shown]) -> None:
        self.looks = list(looks)
        self.asked = 0

    def __call__(self, *_asked: Any, noted: bool = False) -> list[Shown]:
        self.asked += 1
        self.noted = noted
        return list(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])


@pytest.fixture
def run_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(why_command, "PAUSE", 0.0)

    def run(workers: Workers, *words: str, hosts: Sequence[str] = HOSTS, **how: Any) -> Result:
        known = fleet(*hosts)
        monkeypatch.setattr(many_command, "chosen", lambda choose, _refresh: (known, choose(known)))
        monkeypatch.setattr(why_command, "ask_for_evidence", workers)
        answers = Answers([])
        monkeypatch.setattr(why_command, "ask_for_runs", lambda *_asked: answers)
        words = words if "-o" in words or "--kept" in words else (*words, "-o", "out")
        return CliRunner().invoke(why, ["digits", *words], **how)

    return run


def hung() -> list[Shown]:
    waiting = [answer(seen(at, ALL_REDUCE)) for at in range(3)]
    return [*waiting, answer(seen(3, QUEUE_GET))]


def test_the_sentence_the_table_and_the_folder(run_why: Any) -> None:
    done = run_why(Workers(hung()))
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "Worker 3 waits for data in `queue.get` (data.py:88) for 14 min; the other 3 wait for it "
        "in an all-gather (train.py:51).",
        "Look at what feeds it: the line is named, and its other threads are in the material.",
        "",
        "WORKER      STATE    STEP     AGE  WHAT IT DOES",
        "pod-w3      running   812  14 min  waits for data in `queue.get` (data.py:88)",
        "pod-w[0-2]  running   812  14 min  waits for the others in "
        "`jax.process_allgather` (train.py:51)",
        "",
        "All that was seen of 4 workers: out/why.html",
    ]


def test_a_narrow_terminal_breaks_no_command(run_why: Any) -> None:
    told = seen(3, STEP, processes=[{"pid": 4003, "state": "T", "command": "python train.py"}])
    looks = Workers([*hung()[:3], answer(told)])
    assert run_why(looks).exit_code == 0
    out = io.StringIO()
    console = PlainConsole(file=out, width=80, force_terminal=True, color_system=None)
    verdicts = why_command.from_folder("digits", Path("out"))
    why_command.show(console, verdicts)
    lines = out.getvalue().splitlines()
    assert "  tpu-fleet exec --limit pod-w3 --sudo -- kill -CONT 4003" in lines
    assert all(len(line) <= 80 for line in lines), lines


def test_the_folder_has_everything_and_no_secret(run_why: Any, tmp_path: Path) -> None:
    assert run_why(Workers(hung())).exit_code == 0
    folder = tmp_path / "out"
    names = sorted(path.name for path in folder.iterdir())
    files = [f"{host}.{end}" for host in HOSTS for end in ("json", "txt")]
    assert names == sorted([*files, "why.html", "why.json"])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "HF_TOKEN=***" in (folder / "pod-w0.txt").read_text()
    report = json.loads((folder / "why.json").read_text())
    assert report["verdicts"][0]["cause"] == "data"
    again = run_why(Workers([]), "--kept", str(folder))
    assert again.output.splitlines()[1].startswith("Worker 3 waits for data")


def test_json_has_the_sentence_the_workers_and_the_folder(run_why: Any, tmp_path: Path) -> None:
    told = json.loads(run_why(Workers(hung()), "--json").stdout)
    (verdict,) = told["verdicts"]
    assert verdict["sentence"].startswith("Worker 3 waits for data in `queue.get`")
    assert (verdict["run"], verdict["slice"], verdict["grade"]) == ("digits", "pod", "trouble")
    assert (verdict["workers"], verdict["seconds"]) == (["pod-w3"], 840.0)
    assert verdict["standing"][0]["hosts"] == ["pod-w3"]
    assert told["folder"] == str(tmp_path / "out")
    assert (told["no_result"], told["exit_code"]) == ([], 0)


def test_without_a_place_the_folder_has_run_and_time(
    run_why: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Place:
        def __init__(self, **_how: Any) -> None: ...

        def folder_of_results(self) -> Path:
            return tmp_path / "collected"

    monkeypatch.setattr(why_command, "Archives", Place)
    seen_now = why_command.Seen(AT, [], [])
    folder = why_command.folder_of("digits", seen_now, None)
    assert folder == tmp_path / "collected/digits/why-20261125T220000Z"


def test_a_worker_that_does_not_answer_is_named(run_why: Any) -> None:
    silent = Shown("pod-w3", absent="the connection timed out", remedy="tpu-fleet doctor")
    done = run_why(Workers([*hung()[:3], silent]))
    assert done.exit_code == 2
    assert done.output.startswith("Worker 3 does not answer (the connection timed out); the other")


def test_a_refused_answer_is_an_error_of_that_worker(run_why: Any) -> None:
    evil = Shown("pod-w3", absent="its answer is not accepted: at is 'x'", refused=True)
    fine = [answer(seen(at, STEP, run=FAST)) for at in range(3)]
    done = run_why(Workers([*fine, evil]))
    assert done.exit_code == 1
    assert done.output.startswith("Worker 3: its answer is not accepted: at is 'x'.")


def test_a_run_that_goes_on_is_looked_at_again(
    run_why: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = Workers([answer(seen(at, STEP, run=FAST)) for at in range(4)])
    done = run_why(fine)
    assert (done.exit_code, fine.asked) == (0, 2)
    assert done.output.startswith("digits is healthy: all 4 workers run")
    monkeypatch.setattr(why_command, "LONGEST", -1.0)
    slow = Workers([answer(seen(at, STEP, run=FAST)) for at in range(4)])
    assert (run_why(slow).exit_code, slow.asked) == (0, 1)
    hung_run = Workers(hung())
    run_why(hung_run)
    assert hung_run.asked == 1


def test_a_slow_worker_is_found_though_one_look_shows_none(run_why: Any) -> None:
    between = [answer(seen(at, STEP, run=FAST)) for at in range(4)]
    waiting = [answer(seen(at, ALL_REDUCE, run=FAST)) for at in range(3)]
    waiting.append(
        answer(
            seen(
                3,
                own("augment", "data.py", 70),
                run=FAST,
                waits={"state": "R", "wchan": "", "syscall": ""},
            )
        )
    )
    for looks in ([between, waiting], [waiting, between, waiting]):
        slow = Workers(*looks)
        done = run_why(slow)
        assert slow.asked == 4
        assert done.output.startswith("Worker 3 is slow: in 3 of 4 looks it "), done.output


def test_workers_without_the_run_do_not_count(run_why: Any) -> None:
    others = [Shown(f"other-w{at}", absent=NO_RUN) for at in range(2)]
    away = Shown("far-w0", absent="the connection timed out")
    hosts = (*HOSTS, "other-w0", "other-w1", "far-w0")
    done = run_why(Workers([*hung(), *others, away]), hosts=hosts)
    assert done.exit_code == 0
    assert "other-w" not in done.output
    assert "far-w0" not in done.output


def test_a_worker_of_the_slice_that_lacks_the_run_counts(run_why: Any) -> None:
    done = run_why(Workers([*hung()[:3], Shown("pod-w3", absent=NO_RUN)]))
    assert done.output.startswith("Worker 3: it does not have the run.")


def test_an_unknown_run(run_why: Any) -> None:
    none = [Shown(host, absent=NO_RUN) for host in HOSTS]
    done = run_why(Workers(none))
    assert done.exit_code == 1
    assert "There is no run digits." in done.output
    lost = [*none[:3], Shown("pod-w3", absent="the connection timed out")]
    done = run_why(Workers(lost))
    assert done.exit_code == 2
    assert "Not reached: pod-w3: the connection timed out." in done.output


def test_the_same_run_on_two_slices_has_two_answers(run_why: Any) -> None:
    hosts = ("a-w0", "a-w1", "b-w0", "b-w1")
    told = {
        "a-w0": seen(0, STEP, run={**FAST, "workers": 2}),
        "a-w1": seen(1, STEP, run={**FAST, "workers": 2}),
        "b-w0": seen(0, ALL_REDUCE, run={"workers": 2}),
        "b-w1": seen(1, QUEUE_GET, run={"workers": 2}),
    }
    done = run_why(Workers([answer(told[host], host) for host in hosts]), hosts=hosts)
    lines = done.output.splitlines()
    # What is worse comes first.
    assert lines[0] == "digits on b"
    assert lines[1].startswith("Worker 1 waits for data")
    assert "digits on a" in lines
    assert any(line.startswith("digits is healthy: both workers run") for line in lines)


def test_slices_that_run_together_have_one_answer(run_why: Any) -> None:
    hosts = ("a-w0", "a-w1", "b-w0", "b-w1")
    shown = [answer(seen(at, ALL_REDUCE), host) for at, host in enumerate(hosts[:3])]
    done = run_why(Workers([*shown, Shown("b-w1", absent="the connection timed out")]), hosts=hosts)
    assert done.output.startswith("Worker 3 does not answer (the connection timed out); the other")


def test_the_command_for_a_blocked_port_has_the_addresses(
    run_why: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Inventory:
        def workers(self) -> list[tuple[str, dict[str, str]]]:
            return [(host, {"tpu_vm_internal_ip": f"10.9.0.{at}"}) for at, host in enumerate(HOSTS)]

    monkeypatch.setattr(why_command, "read_inventory", Inventory)
    peers = {"peers": [{"worker": 0, "port": 8482, "result": "timeout"}]}
    shown = [answer(seen(at, CONNECT, ports=peers if at == 2 else {})) for at in range(4)]
    done = run_why(Workers(shown))
    assert done.output.startswith("Worker 2 cannot reach worker 0:8482: a firewall.")
    assert "--allow=tcp:8482 --source-ranges=10.9.0.0/24" in done.output


def test_a_folder_that_cannot_be_written_costs_no_answer(run_why: Any, tmp_path: Path) -> None:
    (tmp_path / "out" / "why.json").mkdir(parents=True)
    done = run_why(Workers(hung()))
    assert done.exit_code == 0
    assert "Worker 3 waits for data" in done.output
    assert "out cannot be written: Is a directory. Name another -o." in done.output


def test_notes_of_a_hang_are_judged_as_of_then(run_why: Any) -> None:
    old = answer({**seen(2, STEP), "run": {"name": "digits", "attempt": 0, "state": "running"}})
    without = Shown("pod-w1", absent=NOT_NOTED_HERE)
    away = Shown("far-w0", absent="the connection timed out")
    workers = Workers([*hung()[:1], without, old, hung()[3], away])
    done = run_why(workers, "--hang", hosts=(*HOSTS, "far-w0"))
    assert done.exit_code == 0
    assert (workers.noted, workers.asked) == (True, 1)
    lines = done.output.splitlines()
    assert lines[0] == "As it was at 2026-11-25T22:00:00Z:"
    assert lines[1].startswith("Worker 3 waits for data in `queue.get` (data.py:88) for 14 min")
    assert "pod-w1" not in done.output
    assert "pod-w2" not in done.output


def test_a_run_that_has_not_hung_has_no_notes(run_why: Any) -> None:
    done = run_why(Workers([Shown(host, absent=NOT_NOTED_HERE) for host in HOSTS]), "--hang")
    assert done.exit_code == 1
    assert "No hang of digits is noted on its workers." in done.output
