"""Nothing assumes the processor of a machine: TPU hosts are x86-64 today, and Arm from TPU 8 on."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A processor in a path, in the name of a file to download, or in a comparison.
ONE = re.compile(r"x86[_-]?64|amd64|aarch64|arm64|-linux-gnu", re.IGNORECASE)
# What runs on machines or decides what they get, and what people copy.
PLACES = (
    "plugins", "roles", "playbooks", "src", "local_cloud/src", "scripts", "examples", "inventory",
    ":(glob)docs/*.md", "Makefile", ":(glob)*.yml", ":!*/discovery_documents/*",
)  # fmt: skip
# Each with why: data by processor, or the other processor named beside it.
ALLOWED = {
    # Google's names of images, each of a generation.
    "plugins/module_utils/_schema/accelerators.py": ("amd64-tpu-",),
    # What Google answers about the machine types and images of today.
    "local_cloud/src/tpu_local_cloud/compute_api/catalog.py": ('"architecture": "X86_64"',),
    # The numbers of system calls on each.
    "roles/training_run/files/run_agent/decide/syscalls.py": ("_X86_64", "_AARCH64"),
    # For which processors there are wheels.
    "plugins/module_utils/_roles/python_env/framework_rows.py": ('"x86_64",)',),
    "scripts/write_frameworks.py": ('("aarch64", "x86_64")', "(x86_64|aarch64)"),
    "scripts/pin_machines.py": ('("x86_64", "aarch64")',),
    # A machine type of today, with its image.
    "scripts/check-package": ("ubuntu-accel-2204-amd64-tpu",),
    "docs/python.md": ("have wheels for x86-64 only",),
}


def is_allowed(file: str, line: str) -> bool:
    """Whether a line may name a processor."""
    return any(
        word in line for place, words in ALLOWED.items() if file.startswith(place) for word in words
    )


@functools.cache
def lines() -> list[tuple[str, str]]:
    """Return the lines of the tree that name a processor, with their files."""
    found = subprocess.check_output(
        ["git", "grep", "-IiE", "--no-line-number", ONE.pattern, "--", *PLACES], cwd=ROOT, text=True
    )
    split = (line.partition(":") for line in found.splitlines())
    return [(file, line) for file, _colon, line in split]


def test_no_line_of_the_tree_assumes_a_processor() -> None:
    told = [f"{file}: {line.strip()}" for file, line in lines() if not is_allowed(file, line)]
    assert told == []


def test_each_exception_is_used() -> None:
    named = lines()
    for place, words in ALLOWED.items():
        for word in words:
            assert any(file.startswith(place) and word in line for file, line in named), place


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("paths: [/usr/bin, /usr/lib/x86_64-linux-gnu]", True),
        ("image: debian-12-arm64", True),
        ("if platform.machine() == 'AMD64':", True),
        ("https://example.org/tool-$(uname -m).tar.gz", False),
    ],
)
def test_what_names_a_processor(line: str, found: bool) -> None:
    assert bool(ONE.search(line)) == found
    assert not is_allowed("roles/python_env/tasks/libpython.yml", line)


def test_files_that_machines_install_from_have_hashes_for_both() -> None:
    """uv names the file of each processor by its hash: a wheel for one has a twin."""
    pinned = (ROOT / "plugins/module_utils/_host/pinned.py").read_text()
    for name in ("markupsafe", "pyyaml"):
        (block,) = re.findall(rf'"{name}==[^"]*": \((.*?)\n    \),', pinned, re.DOTALL)
        # CPython 3.11 to 3.14, on two processors.
        assert block.count('"') // 2 == 8
