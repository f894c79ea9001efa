"""scripts/demo in a checkout whose commands only note that they were called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pexpect
import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.frameworks import RELEASES
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import pins

ROOT = Path(__file__).resolve().parents[2]
FLEET = yaml.safe_load((ROOT / "inventory/group_vars/all/fleet.yml").read_text())
NOTE = '#!/bin/sh\nname=$(basename "$0")\necho "$FRAMEWORK $name $*" >>calls\necho "[$name $1]"\n'
END = ["page", "history", "top"]


class Checkout:
    """A checkout with the script alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "scripts/demo"
        self.script.parent.mkdir()
        shutil.copy(ROOT / "scripts/demo", self.script)
        (folder / ".venv/bin").mkdir(parents=True)
        for name in ("scripts/venv", ".venv/bin/tpu-fleet", ".venv/bin/ansible-playbook"):
            self._note(name)
        self._note(".venv/bin/ssh")

    def _note(self, name: str) -> None:
        command = self.folder / name
        command.write_text(NOTE)
        command.chmod(0o755)

    def environment(self, framework: str | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "FRAMEWORK"}
        return kept if framework is None else {**kept, "FRAMEWORK": framework}

    def demo(self, framework: str | None = None, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it where there is no terminal."""
        return subprocess.run(
            [self.script, *words],
            env=self.environment(framework),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self) -> list[list[str]]:
        """Return the words of all calls: the framework, the command, its arguments."""
        file = self.folder / "calls"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def shown(self) -> list[str]:
        """Return what the last calls of tpu-fleet showed."""
        return [call[2] for call in self.calls() if call[1] == "tpu-fleet"][-len(END) :]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_it_ends_with_the_page_and_top(checkout: Checkout) -> None:
    done = checkout.demo()
    assert done.returncode == 0, done.stderr
    assert checkout.shown() == END
    _before, after = done.stdout.split("[tpu-fleet top]")
    assert "make demo-down" in after
    assert "Leave it with q" not in done.stdout, "nobody is there who could"


def test_in_a_terminal_it_says_how_to_leave_top_and_waits(checkout: Checkout) -> None:
    environment: Any = checkout.environment(None)
    at = pexpect.spawn(str(checkout.script), env=environment, encoding="utf-8", timeout=30)
    at.expect("Leave it with q")
    assert checkout.shown()[-1] == "history"
    at.send("\r")
    at.expect_exact("[tpu-fleet top]")
    at.expect("make demo-down")
    at.expect(pexpect.EOF)
    at.close()
    assert at.exitstatus == 0


@pytest.mark.parametrize("framework", [None, *RELEASES])
def test_all_of_it_is_with_one_framework(checkout: Checkout, framework: str | None) -> None:
    done = checkout.demo(framework)
    assert done.returncode == 0, done.stderr
    assert {call[0] for call in checkout.calls()} == {framework or "jax"}
    # Whoever goes on by hand needs it too.
    assert (
        f"export FRAMEWORK={framework or 'jax'}\n"
        in (checkout.folder / ".work/demo/shell").read_text()
    )
    assert ("TPU chips only" in done.stdout) is (framework == "torch_tpu")


def test_another_framework_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    done = checkout.demo("tensorflow")
    assert done.returncode == 2
    for word in ("FRAMEWORK = 'tensorflow'", "Remedy: ", *RELEASES):
        assert word in done.stderr
    assert checkout.calls() == []
    assert not (checkout.folder / ".work").exists()


def test_a_demo_that_stands_keeps_its_framework(checkout: Checkout) -> None:
    assert checkout.demo("torch_xla").returncode == 0
    made = checkout.calls()
    refused = checkout.demo("jax")
    assert refused.returncode == 2
    assert "FRAMEWORK = 'jax', but the demo that stands here trains with torch_xla" in (
        refused.stderr
    )
    assert "Remedy: make demo-down" in refused.stderr
    assert checkout.calls() == made
    # Without a word it is the one that stands, whose preemption was shown already.
    again = checkout.demo()
    assert again.returncode == 0, again.stderr
    assert {call[0] for call in checkout.calls()} == {"torch_xla"}
    assert [call[2:4] for call in checkout.calls()].count(["cloud", "preempt"]) == 1
    assert checkout.shown() == END

    assert checkout.demo("whatever", "down").returncode == 0
    assert not (checkout.folder / ".work/demo").exists()
    assert checkout.demo("jax").returncode == 0


def said(value: Any, framework: str) -> str:
    """Return what a template of the demo's fleet file says with a framework."""
    names = {"lookup": lambda plugin, name: framework if name == "FRAMEWORK" else ""}
    for name in ("demo_framework", "demo_example"):
        names[name] = jinja2.Template(FLEET[name]).render(names)
    return jinja2.Template(value).render(names)


@pytest.mark.parametrize("framework", ["", *RELEASES])
def test_the_fleet_file_has_the_program_and_what_it_requires(framework: str) -> None:
    ((venv,), (tree,)) = FLEET["fleet_venvs"], FLEET["fleet_code"]
    assert said(venv["framework"], framework) == (framework or "jax")
    assert {run["venv"] for run in FLEET["fleet_runs"]} == {venv["name"]}
    folder = (ROOT / "inventory" / said(tree["local_path"], framework)).resolve()
    assert (folder / "train.py").exists()
    required = pins((folder / "requirements.txt").read_text().splitlines())
    # The role brings the framework itself.
    others = {n: v for n, v in required.items() if n not in ("jax", "torch", "torch-xla")}
    assert pins(FLEET["demo_packages"][folder.name]) == others
