"""Each benchmark still starts: it finds all that it imports, and reads its arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
# The others are modules of these, or have no arguments.
STARTED = sorted(
    path.name for path in BENCHMARKS.glob("*.py") if "ArgumentParser(" in path.read_text()
)


def test_benchmarks_are_found() -> None:
    assert {"inventory.py", "pod.py", "poll.py"} <= set(STARTED)


@pytest.mark.parametrize("name", STARTED)
def test_a_benchmark_shows_its_arguments(name: str) -> None:
    # In a process of its own: each one changes the paths of imports and of collections.
    argv = [sys.executable, BENCHMARKS / name, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"usage: {name}" in done.stdout


def test_the_script_by_hand_installs_what_the_demo_asks_for() -> None:
    script = (BENCHMARKS / "first_configure.sh").read_text().replace("\\\n", " ")
    specs = yaml.safe_load((ROOT / "roles/host_base/meta/argument_specs.yml").read_text())
    packages = specs["argument_specs"]["main"]["options"]["host_base_packages"]["default"]
    (installed,) = re.findall(r"--no-install-recommends (.+)", script)
    assert sorted(installed.split()) == sorted(packages)
    demo = yaml.safe_load((ROOT / "inventory/group_vars/all/fleet.yml").read_text())
    assert demo["fleet_shell_packages"] == []
    (python,) = re.findall(r'--python "\$python" (.+)', script)
    assert {*demo["demo_packages"]["jax"], "pip"} == {
        word for word in python.split() if not word.startswith("jax==")
    }
