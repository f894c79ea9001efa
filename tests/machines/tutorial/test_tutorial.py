"""docs/tutorial.md, line by line, on machines."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
# Not that of a cloud which somebody uses here.
PORT = "8483"


class Reader:
    """One who types what the tutorial says, in a checkout with a fleet file of their own."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.checkout.mkdir()
        for path in ROOT.iterdir():
            if path.name not in ("inventory", ".git", ".work"):
                (self.checkout / path.name).symlink_to(path)
        inventory = ROOT / "inventory"
        for path in (path for path in inventory.rglob("*") if path.is_file()):
            copy = self.checkout / "inventory" / path.relative_to(inventory)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text().replace(":8470/", f":{PORT}/"))
        self.environment = {
            **{name: value for name, value in os.environ.items() if "CLOUD" not in name},
            "TPU_FLEET_CLOUD_DIR": str(folder / "cloud"),
            "TPU_FLEET_STATE_DIR": str(folder / "state"),
            "TPU_FLEET_SSH_KEY": str(folder / "key"),
        }

    def type(self, line: str) -> str:
        """Run a line; what `source` does in a shell holds for the next ones too."""
        if line.startswith("tpu-fleet cloud up"):
            line += f" --port {PORT}"
        print(f"$ {line}", flush=True)
        activated = "if [ -e .venv ]; then source .venv/bin/activate; fi"
        done = subprocess.run(
            ["bash", "-c", f"{activated}; {line}"],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout + done.stderr, flush=True)
        assert done.returncode == 0, line
        return done.stdout

    def type_until(self, line: str, seen: str) -> str:
        """Look again, as people do, until something is there."""
        end = time.monotonic() + 180
        while True:
            said = self.type(line)
            if re.search(seen, said):
                return said
            assert time.monotonic() < end, f"{line}: no {seen}"
            time.sleep(3)


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
        reader.type("tpu-fleet cloud down")


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    venv, *setting_up = lines_of(1)
    # It is there: these tests run in it.
    assert venv == "make venv"
    for line in (*setting_up, *lines_of(3)):
        reader.type(line)
    *looks, log = lines_of(4)
    for line in looks:
        assert "pair" in reader.type(line)
    # A checkpoint is there after a hundred steps.
    reader.type_until(log, r"step [1-9]\d{2,} loss")
    *breaks, log = lines_of(5)
    for line in breaks:
        reader.type(line)
    said = reader.type_until(log, r"(?s)attempt 2 .*attempt 2 ")
    begun = re.findall(
        r"pair-w(\d) .*: attempt 2 begins at step ([1-9]\d{2,})$", said, re.MULTILINE
    )
    assert {worker for worker, _step in begun} == {"0", "1"}
    assert len({step for _worker, step in begun}) == 1
    fleet = reader.checkout / "inventory/group_vars/all/fleet.yml"
    blocks = re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)
    changed = {**yaml.safe_load(fleet.read_text()), **yaml.safe_load(blocks[-1])}
    fleet.write_text(yaml.safe_dump(changed))
    said = [reader.type(line) for line in lines_of(6)]
    assert said[-1].count("uid=2003(carol)")
    down, cloud_down = lines_of(7)
    reader.type(down)
    assert "pair-w" not in reader.type("tpu-fleet status")
    reader.type(cloud_down)
