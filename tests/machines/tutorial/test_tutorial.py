"""docs/tutorial.md, line by line, at a terminal of 80 columns: from the clone to the end.

TPU_FLEET_PICTURES=1 writes the pictures of that page. What is not committed is not cloned.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from ports import free_port
from terminal import Terminal
from terminal_picture import TALLEST, picture, too_wide

from tpu_fleet.commands.cloud import ENDPOINT

ROOT = Path(__file__).resolve().parents[3]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
COLUMNS, ROWS = 80, 24
REPOSITORY = "https://github.com/tpu-fleet/tpu.fleet"
PORT = free_port()
# What top shows when all have answered: workers, the API, and which checkpoint there is.
TOLD = re.compile(r"(?s)2/2 workers answer.* grant 8/64.*running +\d+ +[\d.]+ +\d+s ")
PROMPT = re.compile(r"(?:\x1b\[\?2004h)?(?:\(\S+\) )?\$ $")
# Pictures of which only the last screen counts.
LAST_SCREEN = ("check", "site", "top", "change")
# What a reader answers who follows the page, with one slip; the rest is Enter.
ANSWERS = (
    ("Owner", ""),
    ("Zone", "us-central2"),
    ("is a region, not a zone.*Zone", ""),
    ("Tier", ""),
    ("Accelerator type", "v4-16"),
    ("How many v4-16", ""),
    ("Name of the first slice", "pair"),
    ("Your login", ""),
    ("Other people", ""),
    ("Python environment", ""),
    ("Code", ""),
    ("Command", ""),
)


class Reader:
    """One who types what the tutorial says, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Lines of screens that the terminal broke.
        self.wide: dict[str, list[str]] = {}
        wanted = os.environ.get("TPU_FLEET_PICTURES")
        self.pictures = ROOT / "docs" / "pictures" if wanted else folder
        # In a picture pip says nothing of the indexes that somebody here has in a file.
        plain = {"PIP_CONFIG_FILE": os.devnull} if wanted else {}
        without = re.compile("CLOUD|ANSIBLE|VIRTUAL_ENV|PYTHON|COLUMNS|LINES")
        self.terminal = Terminal(
            folder,
            {
                **{name: text for name, text in os.environ.items() if not without.search(name)},
                **plain,
                "TPU_FLEET_CLOUD_DIR": str(folder / "cloud"),
                "TPU_FLEET_STATE_DIR": str(folder / "state"),
                "TPU_FLEET_SSH_KEY": str(folder / "key"),
                # The address that the page names is this checkout.
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf",
                "GIT_CONFIG_VALUE_0": REPOSITORY,
            },
            columns=COLUMNS,
            rows=ROWS,
        )

    def type(self, line: str, code: int = 0) -> str:
        """Type a line that has to succeed, or to exit with another code."""
        if line.startswith("tpu-fleet cloud up"):
            line += f" --port {PORT}"
        said = self.terminal.run(line, code=code)
        print(f"$ {line}{said}", flush=True)
        return said

    def look(self, line: str) -> str:
        """Type a line that is in no picture."""
        begun = self.now()
        said = self.type(line)
        del self.terminal.events[begun:]
        return said

    def type_until(self, line: str, seen: str, name: str) -> str:
        """Look again, as people do, until something is there; draw that."""
        end = time.monotonic() + 180
        while True:
            begun = self.now()
            said = self.type(line)
            if re.search(seen, said):
                self.draw(name, line, begun)
                return said
            assert time.monotonic() < end, f"{line}: no {seen}"
            time.sleep(3)

    def type_and_draw(self, lines: list[str], name: str) -> str:
        """Type lines that have to succeed, and draw what they say; return the last words."""
        begun = self.now()
        said = [self.type(line) for line in lines]
        self.draw(name, lines[0], begun)
        return said[-1]

    def now(self) -> int:
        """Return the place in what the terminal writes."""
        return len(self.terminal.events)

    def draw(self, name: str, title: str, since: int, until: int | None = None) -> str:
        """Draw what was written, as one who works in /root would see it; return its words."""
        written = "".join(text for _at, text in self.terminal.events[since:until])
        text = PROMPT.sub("", written).lstrip("\r\n")
        text = f"$ {text}" if text.startswith(title) else text
        if found := too_wide(text, COLUMNS):
            self.wide[name] = found
        text = text.replace(str(self.folder / "state"), "/root/.local/state/tpu-fleet")
        text = text.replace(str(self.folder), "/root").replace(f" --port {PORT}", "")
        text = text.replace(f"http://127.0.0.1:{PORT}/", ENDPOINT)
        rows = self.terminal.rows if name in LAST_SCREEN else TALLEST
        drawn = picture(title, [(0, text)], self.terminal.columns, rows)
        (self.pictures / f"tutorial-{name}.svg").write_text(drawn)
        return re.sub(r"<[^>]+>", " ", drawn)


def lines_of(number: int) -> list[str]:
    """The lines that a step has to be typed."""
    section = re.split(r"(?m)^## ", TUTORIAL)[number]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    reader = Reader(tmp_path_factory.mktemp("tutorial"))
    try:
        yield reader
    finally:
        reader.terminal.close()
        last = Terminal(reader.folder, reader.terminal.environment)
        last.type("day/bin/tpu-fleet cloud down --keep-image")
        last.close()


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    reader.type_and_draw(lines_of(1), "setup")
    (init,) = lines_of(2)
    answer(reader, init)
    folder, cloud, delays, check, site = lines_of(3)
    reader.type(folder)
    reader.type_and_draw([cloud, delays], "cloud")
    begun = reader.now()
    # It exits with 2, because there is something to do.
    assert "set up      pair-w[0-1]: new" in reader.type(check, code=2)
    reader.draw("check", check, begun)
    begun = reader.now()
    assert "machines  2 ready" in reader.type(site)
    reader.draw("site", site, begun)
    status, log, top = lines_of(4)
    begun = reader.now()
    assert "pair" in reader.type(status)
    assert "running" in reader.draw("status", status, begun)
    # A checkpoint is there after a hundred steps.
    reader.type_until(log, r"step [1-9]\d{2,} loss", "log")
    look_at_top(reader, top)
    *breaks, log = lines_of(5)
    reader.type_and_draw(breaks, "break")
    said = reader.type_until(log, r"(?s)attempt 2 .*attempt 2 ", "attempts")
    begun_at = re.findall(
        r"pair-w(\d) .*: attempt 2 begins at step ([1-9]\d{2,})$", said, re.MULTILINE
    )
    assert {worker for worker, _step in begun_at} == {"0", "1"}
    assert len({step for _worker, step in begun_at}) == 1
    edit_and_sync(reader)
    assert "stopped" in reader.type_and_draw(lines_of(7), "stop")
    add_a_run(reader)
    compare_and_look(reader)
    down, cloud_down = lines_of(10)
    begun = reader.now()
    reader.terminal.type(down, r'Type "pair" to delete: $', 60)
    assert "Deleted: pair." in reader.type("pair")
    reader.draw("end", down, begun)
    assert "pair-w" not in reader.type("tpu-fleet status")
    reader.type(cloud_down)
    assert reader.wide == {}


def edit_and_sync(reader: Reader) -> None:
    """Let the program print fewer digits, and see the workers print them."""
    edit, sync, log = lines_of(6)
    begun = reader.now()
    reader.type(edit)
    assert "2 workers" in reader.type(sync)
    end = time.monotonic() + 180
    while len(re.findall(r"loss \d+\.\d{3}\s", reader.look(log))) < 4:
        assert time.monotonic() < end, "the new code prints nothing"
        time.sleep(2)
    reader.type(log)
    reader.draw("sync", edit, begun)


def add_a_run(reader: Reader) -> None:
    """Declare a person and a run, which fails, and succeeds when it is tried again."""
    person, run = re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)
    fleet = reader.folder / "lab/inventory/group_vars/all/fleet.yml"
    own = "      - '{{ fleet_ssh_public_key }}'\n"
    before, _own, after = fleet.read_text().partition(own)
    fleet.write_text(before + own + person + after + run)
    apply, who, runs, *copy, retry, runs_again = lines_of(8)
    assert "uid=2002(carol)" in reader.type_and_draw([apply, who], "change")
    reader.type_until(runs, r"wide .*failed", "failed")
    begun = reader.now()
    for line in (*copy, retry):
        reader.type(line)
    end = time.monotonic() + 300
    while not re.search(r"wide .*succeeded", reader.look(runs_again)):
        assert time.monotonic() < end, "the run does not succeed"
        time.sleep(2)
    reader.type(runs_again)
    reader.draw("retry", copy[0], begun)


def compare_and_look(reader: Reader) -> None:
    """Fetch a run, compare it with the other one, let that go on, and look at the page."""
    fetch, compare, start, page = lines_of(9)
    reader.type_and_draw([fetch], "fetch")
    found = sorted(path.name for path in (reader.folder / "lab/collected/wide").iterdir())
    assert found == ["pair-w0", "pair-w1"]
    said = reader.type_and_draw([compare], "compare")
    # The curve ends with the last step, and what is declared otherwise is listed.
    assert re.search(r"wide.* 600\b", said)
    assert "--hidden 512" in said
    assert "running" in reader.type_and_draw([start], "start")
    end = time.monotonic() + 180
    while not re.search(r"example .*running +4 +\d+ +[\d.]+/s", reader.look("tpu-fleet runs")):
        assert time.monotonic() < end, "the started run does not go on"
        time.sleep(2)
    look_at_page(reader, page)


def answer(reader: Reader, init: str) -> None:
    """Answer what init asks."""
    terminal, begun = reader.terminal, reader.now()
    (first, _), *_rest = ANSWERS
    terminal.type(init, rf"{first}[^\n]*: $", 30)
    for (_asked, said), (following, _) in zip(
        ANSWERS, [*ANSWERS[1:], ("Checkpoints", "")], strict=True
    ):
        terminal.type(said, rf"(?s){following}.*\]: $", 30)
    asked = reader.now()
    terminal.type("", r"Write these files\? \(y, n\) \[y\]: $", 30)
    said = terminal.type("")
    assert "Wrote 9 files" in said
    assert "not a zone" in reader.draw("init", init, begun, asked)
    assert "fleet_slices" in reader.draw("files", init, asked)
    place = reader.folder / "lab/inventory/fleet.tpu.yml"
    # It has another port than the default one where something else is at that.
    text = re.sub(r"127\.0\.0\.1:\d+/", f"127.0.0.1:{PORT}/", place.read_text())
    assert f":{PORT}/" in text
    place.write_text(text)


def look_at_top(reader: Reader, top: str) -> None:
    """Draw what top shows when it knows speed, loss and checkpoint, and leave it."""
    terminal, begun = reader.terminal, reader.now()
    terminal.type(top, r"\d/s", 60)
    end = time.monotonic() + 180  # the agent looks at a bucket once a minute
    while not TOLD.search(reader.draw("top", top, begun)):
        assert time.monotonic() < end, "top never shows all of the run"
        terminal.look(1)
    terminal.press("q")
    terminal.wait_for(r"\$ $", 20)


def look_at_page(reader: Reader, command: str) -> None:
    """Open the page, which shows the reboot."""
    address = reader.type(command).split()[0]
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
        page.goto(address)
        page.click("#all-runs a")
        page.locator("article.run details[open]").first.wait_for()
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=reader.pictures / "tutorial-page.png")
        # Also what is folded away.
        told = page.text_content("article.run") or ""
        assert re.search("maintenance|worker rebooted", told)
        browser.close()
