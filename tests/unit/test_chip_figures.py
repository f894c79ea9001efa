"""The use of chips on its way: from a monitoring port of the local cloud to all that shows it.

An agent's watch reads the port, its status goes through the file and the reader of a worker, and
every picture shows the same. What no runtime says is shown nowhere.
"""

from __future__ import annotations

import getpass
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import beside
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import listing
from ansible_collections.tpu.fleet.plugins.module_utils._host.listeners import Listener
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result
from monitoring_port import serving
from run_definition import PUBLIC

from tpu_fleet.commands import history as history_command
from tpu_fleet.commands import runs as runs_command
from tpu_fleet.commands.status import Row
from tpu_fleet.history.look import answers_seen
from tpu_fleet.history.record import stories
from tpu_fleet.history.store import History, Look
from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.show.table import Table
from tpu_fleet.top import columns
from tpu_fleet.top.lines import Now, by_run
from tpu_fleet.top.source import heard_in
from tpu_fleet.workers.ask.run_answers import Answers
from tpu_fleet.workers.ask.run_view import Run, RunView, views_of
from tpu_fleet.workers.inventory.fleet_facts import FleetView

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "roles/training_run/files"))

from run_agent.act.chip_watch import ChipWatch  # noqa: E402
from run_agent.decide import config, program_words, status  # noqa: E402

PROGRAM = ROOT / "roles/tpu_metrics/files/tpu-fleet-metrics.py"
GIB = 1 << 30
WROTE = {"step": 300, "loss": 0.25, "tokens_per_second": 1_234_000, "mfu": 0.415}
HOST = "pair-w1"
NODE = {
    **{"state": "ready", "type": "v4-8", "zone": "us-central2-b", "tier": "spot", "chips": 4},
    **{"ours": True, "usd": 1.0, "billed": 0.0},
}


class Worker:
    """A worker's files, with what its agent saw of a port and of its program's progress."""

    def __init__(self, folder: Path, port: int, wrote: dict[str, Any]) -> None:
        self.folder, self.port = folder, port
        boot = folder / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("b\n")
        (folder / "dev").mkdir()
        for chip in range(2):
            (folder / f"dev/accel{chip}").touch()
        (folder / "proc/7/fd").mkdir(parents=True)
        (folder / "proc/7/fd/3").symlink_to(folder / "dev/accel0")
        path = folder / "var/lib/tpu-fleet/runs/demo/status.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(self._status(json.dumps(wrote).encode())))

    def _status(self, wrote: bytes) -> dict[str, Any]:
        watch = ChipWatch(getpass.getuser(), 15.0, self.folder, self.port)
        watch.look(time.monotonic(), running=True)
        watch.wait()
        memory = status.Memory(
            attempt=1, program="running", state="running", boot_id="b", start=time.time()
        )
        memory = status.reached(memory, program_words.said(wrote), time.time())
        said = {name: program_words.said_figure(wrote, name) for name in program_words.FIGURES}
        shown: dict[str, Any] = {"reason": "", "problems": [], "agent_pid": 7}
        return status.compose(
            config.parse(PUBLIC, {}),
            status.with_figures(memory, said),
            **{**shown, "log_dropped_bytes": 0, "chips": watch.found},
        )

    def answers(self) -> Answers:
        """Return the answers of this worker, as commands have them."""
        heard = listing(HOST, json.dumps(RunFiles(self.folder).all_told()))
        found = Answers(results=[Result(HOST, Kind.DONE, 0)])
        found.runs = [Run(HOST, "pair", 1, one.state, one, heard.now) for one in heard.runs]
        return found


def cells(table: Table) -> list[str]:
    """Return the words of the row of a table, with the titles before."""
    return " ".join(line.plain for line in table.lines(None)).split()


def on_screen(answers: Answers) -> dict[str, str]:
    """Return the cells of the one row of `top` by their titles, on a wide screen."""
    heard = heard_in(answers, 0.0)
    lines = by_run(Now([Row(HOST, "pair", *[""] * 6)], heard, FleetView(), 0.0))
    chosen = columns.chosen("runs", lines, 200)
    return {column.title: column.text(lines[0]) for column, _width in chosen}


def kept(answers: Answers, folder: Path) -> tuple[dict[str, Any], list[str], str]:
    """Return the history for programs and for people, and the page."""
    look = Look(time.time())
    look.spans["node"] = {"pair": NODE}
    answers_seen(look, answers, {HOST: ("pair", 1)})
    with closing(History(folder / "history.db")) as history:
        history.add(look)
        found = stories(history, 0.0, time.time())
        told = history_command.told(found[0])
        table = cells(history_command.runs_table(found))
        return told, table, html_of(page_of(history, "fleet", time.time()))


def exported(worker: Worker) -> dict[str, str]:
    """Return the exporter's values of chips and of the run's speed."""
    program = beside.load(PROGRAM, "tpu_fleet_metrics")
    page = program.Page({})
    program.add_runs(page, worker.folder / "var/lib/tpu-fleet", worker.folder / "none")
    program.add_chips(page, worker.folder, worker.port)
    pairs = [line.rpartition(" ") for line in page.text().splitlines() if line[0] != "#"]
    names = ("chip", "tokens", "mfu")
    return {key: value for key, _, value in pairs if any(name in key for name in names)}


FIGURES = {"duty_cycle_percent": 96.0, "hbm_used_bytes": 40 * GIB, "hbm_bytes": 64 * GIB}
SPEED = {"tokens_per_second": 1_234_000.0, "mfu": 0.415}
TITLES = {"DUTY", "HBM", "TOKENS/S", "TOK/S", "MFU"}


def test_every_picture_shows_what_the_port_and_the_program_say(tmp_path: Path) -> None:
    with serving() as port:
        worker = Worker(tmp_path, port.port, WROTE)
        answers = worker.answers()
        assert exported(worker) == {
            "tpu_fleet_chips{}": "2",
            "tpu_fleet_chips_readable{}": "1",
            **{f'tpu_fleet_chip_duty_cycle_percent{{device="{n}"}}': "96.0" for n in (0, 1)},
            **{f'tpu_fleet_chip_memory_used_bytes{{device="{n}"}}': str(20 * GIB) for n in (0, 1)},
            **{f'tpu_fleet_chip_memory_bytes{{device="{n}"}}': str(32 * GIB) for n in (0, 1)},
            **{f'tpu_fleet_chip_idle_seconds{{device="{n}"}}': "0.0" for n in (0, 1)},
            'tpu_fleet_run_tokens_per_second{run="demo"}': "1234000.0",
            'tpu_fleet_run_mfu_ratio{run="demo"}': "0.415",
        }
    views = views_of(answers.runs)
    assert (FIGURES | SPEED).items() <= runs_command.described(views[0]).items()
    in_history, table, html = kept(answers, tmp_path)
    assert (FIGURES | SPEED).items() <= in_history.items()
    for shown in (cells(runs_command.table_of(views)), table):
        assert {"DUTY", "HBM", "TOKENS/S", "MFU", "96%", "62%", "1.23M", "42%"} <= {*shown}
    screen = {title: text for title, text in on_screen(answers).items() if title in TITLES}
    assert screen == {"DUTY": "96%", "HBM": "62%", "TOK/S": "1.23M", "MFU": "42%"}
    assert "duty cycle 96% · HBM 62% · " in html
    row = html.partition('<tr id="row/pair/demo"')[2].partition("</tr>")[0]
    assert [text in row for text in (">96%<", ">62%<", ">1.23M<", ">42%<")] == [True] * 4


@pytest.mark.parametrize("how", ["numbers", "text", "huge", "garbage", "nothing", "other"])
def test_what_no_runtime_says_is_shown_nowhere(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "other":
        # A user who neither owns the run nor holds a chip has the port.
        beside.load(PROGRAM, "tpu_fleet_metrics")
        stranger = [Listener("0100007F", 8431, "1", 4711)]
        for package in ("run_agent.act", "tpu_fleet_run_files"):
            monkeypatch.setattr(f"{package}.chip_monitor.of_port", lambda port: stranger)
    wrote = {"step": 3, "tokens_per_second": -1, "mfu": float("inf")}
    with serving() as port:
        port.how = how if how not in ("nothing", "other") else ""
        place = port.port if how != "nothing" else 1
        worker = Worker(tmp_path, place, wrote)
        answers = worker.answers()
        values = exported(worker)
    # A text of the port is of no figure: these are the runtime's all the same.
    known = how == "text"
    assert values["tpu_fleet_chips_readable{}"] == str(int(known))
    (view,) = views_of(answers.runs)
    assert view.state == "running"
    assert (view.duty_cycle, view.memory) == ((96.0, 64 * GIB) if known else (None, None))
    assert (view.tokens_per_second, view.mfu) == (None, None)
    assert not {"tokens", "mfu"} & {word for key in values for word in key.split("_")}
    if not known:
        _told, table, html = kept(answers, tmp_path)
        shown = {*cells(runs_command.table_of([view])), *table, *on_screen(answers)}
        assert not shown & TITLES
        assert "duty cycle" not in html


def test_beside_a_run_with_chips_one_without_has_a_dash() -> None:
    views = [
        RunView(f"run-{duty}", "pair", "alice", "running", duty_cycle=duty) for duty in (96.0, None)
    ]
    head, *rows = (line.plain.split() for line in runs_command.table_of(views).lines(None))
    at = head.index("DUTY")
    assert [row[at] for row in rows] == ["96%", "-"]
    assert "MFU" not in head
