"""Each surface shows the same of one look: figures, states, reasons, days, money and chips."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import one_look
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import controller, work
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.check import examine
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.gather import Place
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.gather import runs as runs_there
from one_look import ERROR, NOW, OneLook
from slices_seen import slice_seen

from tpu_fleet.commands import history as history_command
from tpu_fleet.commands import runs as runs_command
from tpu_fleet.commands import status as status_command
from tpu_fleet.history.money import Account, Day, Use
from tpu_fleet.history.record import stories
from tpu_fleet.history.story import RunStory
from tpu_fleet.page.first import WorkerRow
from tpu_fleet.page.model import Page, page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.show.figures import loss_text, speed_text
from tpu_fleet.show.times import long
from tpu_fleet.top.columns import COLUMNS, duration
from tpu_fleet.top.command import text_of
from tpu_fleet.top.lines import TROUBLE, Line, by_run, by_slice, by_worker, head_of
from tpu_fleet.watch.hosts import hear, runs_of
from tpu_fleet.watch.memory import Memory, SliceMemory
from tpu_fleet.workers.ask.run_view import RunView

NAN = "loss is NaN since step 121; last checkpoint before it: step 100"
MAINTENANCE = "maintenance is planned: SCHEDULED at 2026-11-28 00:39 UTC"
UNHEALTHY = "is under maintenance and comes back when it is rescheduled (chip 2)"


USE = Account(
    7 * 86400.0,
    [Day(20_000, {"carol": Use(30.0, 10.0, 5.0, 120.0), "": Use(0.0, 8.0, 0.0, 25.6)})],
    480.0,
)


class Surfaces:
    """Everything that is shown of the look."""

    def __init__(self, folder: Path) -> None:
        self.look = OneLook(folder)
        self.views = list(self.look.runs.values())
        history = self.look.history()
        self.page: Page = page_of(history, "lab", NOW)
        self.stories: dict[str, RunStory] = {one.name: one for one in stories(history, 0.0, NOW)}
        self.events = history.events()
        self.html = unescape(html_of(self.page))
        self.without_logs = unescape(html_of(page_of(history, "lab", NOW, logs=False)))
        history.close()
        self.status = self._status()
        self.top = "\n".join(text_of(self.look.now, 300))
        self.top_runs = {f"{one.slice}/{one.name}": one for one in by_run(self.look.now) if one.run}
        self.json = {
            f"{one['slice']}/{one['run']}": one
            for one in runs_command.as_data(self.views, self.look.answers, 0)["runs"]
        }
        self.runs = {
            row.cells[1] + "/" + row.cells[0]: row for row in runs_command.table_of(self.views).rows
        }

    def _status(self) -> str:
        console = PlainConsole(width=1000, color_system=None)
        with console.capture() as captured:
            status_command.show(console, self.look.rows, self.views, self.look.view, USE)
        return captured.get()

    def card(self, name: str) -> str:
        """Return the part of the page about a run."""
        (found,) = re.findall(rf'<article[^>]*id="card/{name}".*?</article>', self.html, re.DOTALL)
        return str(found)

    def fact(self, name: str, label: str) -> str:
        """Return a figure of a run's card."""
        (found,) = re.findall(rf"<dt>{label}</dt><dd>(.*?)</dd>", self.card(name))
        return str(found)

    def tile(self, label: str) -> str:
        """Return a tile of the page."""
        (found,) = [one for one in self.page.tiles if one.label == label]
        return f"{found.value} {found.more}"

    def attention(self, name: str) -> str:
        """Return what the page's list of troubles says of something."""
        return "; ".join(one.text for one in self.page.needs if name in (one.name, one.run))

    def doctor(self, host: str) -> str:
        """Return what the doctor says of the runs of a worker."""
        root = self.look.root(host)
        runs = runs_there(Place(runs_dir=str(root / "etc/tpu-fleet/runs")))
        checks = [one for one in work.CHECKS if one.key in ("runs", "loss")]
        return " ".join(found.says for found in examine(checks, {"runs": runs}))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Surfaces:
    return Surfaces(tmp_path_factory.mktemp("look"))


NAMES = ("pair/digits", "cheap/lm-nan", "bench/lm-oom", "bench/short", "solo/lm-base")
every_run = pytest.mark.parametrize("name", NAMES)


def test_each_run_is_everywhere_once(shown: Surfaces) -> None:
    assert set(NAMES) == set(shown.look.runs) == set(shown.json) == set(shown.runs)
    assert set(NAMES) == set(shown.top_runs)
    assert set(NAMES) == {card.story.name for card in shown.page.runs if card.there}
    # What ran on the unhealthy slice is of the past, as its worker was not asked.
    assert set(shown.stories) == {*NAMES, "sick/evaluate"}


FIGURES: dict[str, tuple[Any, ...]] = {
    # step, speed, loss, attempt, seconds since the checkpoint, seconds in the state
    "pair/digits": (1200, 1199 / 1998, 1.609e-05, 1, 95.0, 2400.0),
    "cheap/lm-nan": (7671, 7670 / 1999, "nan", 1, 23.0, 2400.0),
    "bench/lm-oom": (30, 29 / 8, 8.638, 4, None, 1440.0),
    "bench/short": (200, 199 / 500, 3.959, 1, None, 1500.0),
    "solo/lm-base": (90, 89 / 1791, 5.8, 1, None, 2400.0),
}


@every_run
def test_the_figures_of_a_run_are_the_same(shown: Surfaces, name: str) -> None:
    step, speed, loss, attempt, saved, age = FIGURES[name]
    told = shown.json[name]
    keys = ("step", "steps_per_second", "loss", "attempt", "seconds_since_checkpoint", "seconds")
    assert tuple(told[key] for key in keys) == pytest.approx(FIGURES[name], nan_ok=True)
    line = shown.top_runs[name]
    for view in (line.view, shown.stories[name].view):
        kept = (view.step, view.speed, view.loss, view.attempt, view.saved_age, view.age)
        assert kept == pytest.approx(FIGURES[name])
    assert shown.stories[name].saved_age == saved
    # And as they are written.
    assert shown.fact(name, "step").replace(",", "") == str(step)
    assert COLUMNS["step"].text(line) == str(step)
    assert shown.fact(name, "speed") == COLUMNS["speed"].text(line) == speed_text(speed)
    assert shown.fact(name, "loss") == COLUMNS["loss"].text(line).strip() == loss_text(loss)
    assert shown.fact(name, "attempt") == COLUMNS["attempt"].text(line) == str(attempt)
    old = "-" if saved is None else long(saved)
    assert shown.fact(name, "last checkpoint").replace(" ago", "").replace("\u2013", "-") == old
    assert COLUMNS["saved"].text(line) == duration(saved)
    cells = shown.runs[name].cells
    for text in (speed_text(speed), loss_text(loss), old, long(age)):
        assert text in cells
        assert re.search(rf"^{name.partition('/')[2]} .*{re.escape(text)}", shown.status, re.M)


def test_workers_at_different_steps_have_the_step_of_the_slowest(shown: Surfaces) -> None:
    assert "1200-1250" in shown.runs["pair/digits"].cells
    assert shown.json["pair/digits"]["furthest_step"] == 1250


STATES = {
    "pair/digits": ("running", False),
    "cheap/lm-nan": ("loss NaN", True),
    "bench/lm-oom": ("failed", True),
    "bench/short": ("succeeded", False),
    "solo/lm-base": ("running", False),
}


@every_run
def test_the_state_of_a_run_is_the_same_and_trouble_is_trouble(shown: Surfaces, name: str) -> None:
    word, trouble = STATES[name]
    run = name.partition("/")[2]
    assert shown.top_runs[name].state == word
    assert (shown.top_runs[name].rank == TROUBLE) is trouble
    assert word in shown.runs[name].cells
    assert (shown.runs[name].style == "red") is trouble
    assert re.search(rf"^{run} .* {word} ", shown.status, re.MULTILINE)
    assert f">{word}</span>" in shown.card(name)
    assert ("troubled" in shown.card(name).partition(">")[0]) is trouble
    assert bool(shown.attention(name)) is trouble
    assert shown.json[name]["troubled"] is trouble


def test_runs_in_trouble_come_first(shown: Surfaces) -> None:
    order = ["bench/lm-oom", "cheap/lm-nan"]
    assert list(shown.runs)[:2] == order
    assert [card.story.name for card in shown.page.runs][:2] == order
    assert set(list(shown.top_runs)[:2]) == set(order)
    assert shown.tile("Runs") == "1 failed, 1 loss NaN 2 running · 1 succeeded"
    assert "1 failed  1 loss NaN  1 succeeded  2 running" in shown.top
    assert next(one for one in shown.page.tiles if one.label == "Runs").bad


@pytest.mark.parametrize(
    ("name", "host", "why"), [("cheap/lm-nan", "cheap", NAN), ("bench/lm-oom", "bench", ERROR)]
)
def test_the_reason_stands_wherever_the_run_stands(
    shown: Surfaces, name: str, host: str, why: str
) -> None:
    assert why in shown.runs[name].notes[0]
    assert why in shown.status
    assert why in shown.top_runs[name].why
    assert why in shown.top
    assert why in shown.card(name)
    assert why in shown.attention(name)
    assert why in shown.doctor(host)
    rows = history_command.happenings([shown.stories[name]], shown.events)
    assert any(why.rstrip(".") in row.details for row in rows)


def test_the_watcher_sees_and_sends_the_same(shown: Surfaces) -> None:
    found = {}
    for name in ("pair", "cheap", "bench", "solo"):
        hosts = shown.look.hosts_seen(name)
        found |= {one.name: one for one in runs_of(name, hosts)}
        seen = slice_seen(name, "ready", "t", uid="u", addresses=("a -",) * len(hosts))
        memory = Memory(slices={name: SliceMemory(uid="u", phase="ready")}, hosts_known=("u",))
        messages = hear(memory, [seen], {name: hosts}, {}, NOW).messages
        texts = {one.event: one for one in messages}
        if name == "cheap":
            assert NAN[1:] in texts["loss"].text
        if name == "bench":
            assert ERROR in texts["failed"].text
            assert texts["failed"].log[-1] == ERROR
            assert one_look.MARK not in texts["failed"].log
    assert {key: plain(one) for key, one in found.items()} == {
        key: plain(one) for key, one in shown.look.runs.items()
    }


def plain(view: RunView) -> dict[str, Any]:
    return {**view.to_dict(), "tail": view.tail[-4:]}


def test_six_last_lines_are_in_the_card_unless_the_page_is_published_without(
    shown: Surfaces,
) -> None:
    assert "  File train.py" in shown.card("bench/lm-oom")
    assert one_look.MARK not in shown.html
    assert "  File train.py" not in shown.without_logs
    assert ERROR not in shown.without_logs
    assert "exit code 1" in shown.without_logs


def test_days_are_the_same(shown: Surfaces) -> None:
    # The last day counts: from 28 November, 00:26, to 21 December, 00:00.
    for text in (shown.status, shown.top, shown.html):
        assert "2026-12-20 (22 days left)" in text
        assert "23 days" not in text
    assert shown.tile("Grant") == "22 days left ends 2026-12-20 · 12 of 12 chips held"


def test_money_is_the_same(shown: Surfaces) -> None:
    nodes = shown.look.view.nodes
    hour = sum(node["usd_per_hour_billed"] for node in nodes)
    so_far = sum(node["usd_so_far"] for node in nodes)
    # The other fleet in the project has what the grant does not hold.
    assert hour > 0
    hourly, until = f"${hour:,.2f}", f"${so_far:,.2f}"
    assert f"now {hourly} an hour, so far {until}" in shown.status
    assert f"billed {hourly}/h, {until} so far" in shown.top
    assert shown.tile("Billed now").startswith(f"{hourly} an hour {until} so far")


def test_chips_and_counts_are_the_same(shown: Surfaces) -> None:
    head = "".join(text for line in head_of(shown.look.now) for text, _style in line)
    # pair 8, cheap 4, solo 4 of these and of bench 4, sick 4; not the eight of the other fleet.
    assert "16/24 chips busy" in head
    assert "8 of 24 chips are idle (bench, sick)" in shown.status
    assert "8 idle" in head
    assert "8 are idle (bench, sick)" in shown.html
    assert "5/6 workers answer" in head
    told = "16 of 24 busy 4 of 6 slices ready · 5 of 6 workers answer"
    assert shown.tile("Chips") == told
    whole: dict[str, int] = {}
    for line in by_worker(shown.look.now):
        whole[line.slice] = whole.get(line.slice, 0) + (line.chips or 0)
    slices = {line.slice: line.chips for line in by_slice(shown.look.now) if line.chips}
    assert whole == slices == {"pair": 8, "cheap": 4, "bench": 4, "solo": 4, "sick": 4}


def test_each_worker_of_a_gang_has_the_checkpoint_of_the_gang(shown: Surfaces) -> None:
    lines = {line.name: line for line in by_worker(shown.look.now)}
    assert (lines["pair-w0"].view.saved_age, lines["pair-w1"].view.saved_age) == (95.0, 95.0)
    assert (lines["pair-w0"].view.step, lines["pair-w1"].view.step) == (1250, 1200)


def line_of(shown: Surfaces, name: str) -> Line:
    (found,) = [line for line in by_slice(shown.look.now) if line.name == name]
    return found


def test_a_declared_slice_without_a_node_is_everywhere(shown: Surfaces) -> None:
    assert re.search(r"^big +v4-32 .* not created .*nothing was requested yet", shown.status, re.M)
    assert line_of(shown, "big").state == "not created"
    assert "nothing was requested yet" in shown.attention("big")
    assert [row.state for row in shown.page.slices if row.name == "big"] == ["not created"]
    missing = {"error": "", "missing": shown.look.view.missing}
    checks = [one for one in controller.CHECKS if one.key == "slices"]
    (finding,) = examine(checks, {"grant": missing})
    assert "slice big is declared, and does not exist" in finding.says
    assert "4 of 6 slices ready" in shown.tile("Chips")


def test_an_announced_maintenance_is_everywhere(shown: Surfaces) -> None:
    assert re.search(rf"^solo .*{MAINTENANCE}", shown.status, re.MULTILINE)
    assert MAINTENANCE in line_of(shown, "solo").why
    assert shown.attention("solo") == MAINTENANCE


def test_an_unhealthy_slice_is_unhealthy_and_not_silent(shown: Surfaces) -> None:
    assert re.search(rf"^sick .* unhealthy .*{re.escape(UNHEALTHY)}", shown.status, re.MULTILINE)
    line = line_of(shown, "sick")
    assert (line.state, line.why, line.rank) == ("unhealthy", UNHEALTHY, TROUBLE)
    assert shown.attention("sick") == UNHEALTHY
    assert [row.state for row in shown.page.slices if row.name == "sick"] == ["unhealthy"]
    told = WorkerRow("sick", "sick", "not asked", f"the slice {UNHEALTHY}")
    assert told in shown.page.workers
    assert "does not answer" not in shown.html


def test_the_look_has_what_its_name_says() -> None:
    owners = {node.labels["tpu-fleet"] for node in one_look.NODES}
    assert owners == {"managed", "other-lab"}


def test_the_use_by_each_person_has_a_sum(shown: Surfaces) -> None:
    page = replace(shown.page, account=USE)
    html = re.sub(r"<[^>]+>", " ", unescape(html_of(page)))
    rows = {
        "carol": ("40.0", "10.0", "8.3 %", "$120.00", "$5.00"),
        "no run yet": ("8.0", "8.0", "1.7 %", "$25.60", "$0.00"),
        "together": ("48.0", "18.0", "10.0 %", "$145.60", "$5.00"),
    }
    for name, (hours, idle, *rest) in rows.items():
        text = r"\s+".join(map(re.escape, (name, hours, idle, *rest)))
        assert re.search(text, shown.status), name
        on_page = r"\s+".join(map(re.escape, (name, f"{hours} h", f"{idle} h", *rest)))
        assert re.search(on_page, html), name
    assert "Use in 7 d" in shown.status
