"""Subjects that exactly one place of the product decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIRE = ("plugins/module_utils/_wire/transport.py", "plugins/module_utils/_wire/changes.py")
LOOK = "roles/training_run/files/run_agent/act/bucket_look.py"
REQUESTS = "roles/training_run/files/run_agent/act/bucket_requests.py"
FIELDS = "plugins/module_utils/_google/checkpoints.py"
QUEUE = "roles/run_queue/files/queue_agent/act/bucket.py"
QUEUE_HERE = "src/tpu_fleet/queue/bucket.py"
ON_WORKER = "plugins/plugin_utils/_ssh/program.py"
VALUES = ("plugins/module_utils/_schema/values.py",)


def product() -> Iterator[Path]:
    """Yield the files of the product, each once."""
    for folder in ("plugins", "src", "roles"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_symlink():
                yield path


@pytest.mark.parametrize(
    ("what", "places"),
    [
        # The pages of lists; the agents have no client of the collection on their machine.
        (r"nextPageToken|pageToken", (*WIRE, LOOK, REQUESTS, QUEUE, QUEUE_HERE, FIELDS)),
        # How often a request is sent whose answer was lost.
        (r"\bretry\.(tries|backoff)\b", WIRE),
        # Which ports of this computer are free, and whether a person names a folder.
        (r'bind\(\("127.0.0.1", port', ("src/tpu_fleet/commands/ports.py",)),
        (r"os\.path\.isdir", ("plugins/module_utils/_core/folders.py", ON_WORKER)),
        # Which files are chips.
        (r'"(dev/)?accel[*]|accel\\d', ("plugins/module_utils/_host/chip_holders.py",)),
        # What names of a fleet file and of Google's resources may be.
        (re.escape("[a-z]([-a-z0-9]{0,61}[a-z0-9])?"), VALUES),
        (r"\[a-z\]\[(a-z0-9_-|-_a-z0-9)\]\{0,62\}", VALUES),
        (re.escape("[A-Za-z0-9][A-Za-z0-9_-]{0,62}"), VALUES),
        (re.escape("[a-z0-9][a-z0-9_-]{0,31}"), VALUES),
        (r"\[a-z0-9\]\[(a-z0-9_.-|-_.a-z0-9)\]\{1,220\}", VALUES),
        (r"\[A-Za-z_\]\[A-Za-z0-9_\]\*\"\)", VALUES),
        (r"[\"(]\[0-9a-f\]\{40\}\"\)", VALUES),
    ],
)
def test_it_stands_in_one_place(what: str, places: tuple[str, ...]) -> None:
    found = [str(path.relative_to(ROOT)) for path in product() if re.search(what, path.read_text())]
    assert found, "the pattern finds nothing: correct it"
    assert set(found) <= set(places)
