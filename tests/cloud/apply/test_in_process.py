"""Modules of the collection on a machine that applies the roles to itself: in Ansible's process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import ROOT, collection

# As on a machine, whose modules had the Python of the system.
PYTHON = "ansible_python_interpreter=/usr/bin/python3"
SAYS = ("-i", "localhost,", "-vvv", "-e", PYTHON)

Run = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack what machines get."""
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(fileobj=io.BytesIO(collection())) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Make a folder with a short path: Ansible makes a socket below it."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        yield Path(name)


@pytest.fixture
def run(bundle: Path, tmp_path: Path, temporary: Path) -> Run:
    """Run tasks with the collection of a machine; return their results by the name of the task."""

    def tasks(*tasks: dict[str, Any], words: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        play: dict[str, Any] = {"hosts": "localhost", "connection": "local", "gather_facts": False}
        (tmp_path / "none.cfg").touch()
        (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": list(tasks)}]))
        done = subprocess.run(
            [ROOT / ".venv/bin/ansible-playbook", *SAYS, *words, "play.yml"],
            cwd=tmp_path,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(bundle),
                "ANSIBLE_CONFIG": str(tmp_path / "none.cfg"),
                "ANSIBLE_LOCALHOST_WARNING": "false",
                "ANSIBLE_CALLBACKS_ENABLED": "tpu.fleet.events",
                "TPU_FLEET_EVENTS": str(tmp_path / "events"),
                "TPU_FLEET_SHARED": "result",
                "HOME": str(tmp_path),
                "TMPDIR": str(temporary),
            },
            capture_output=True,
            text=True,
        )
        assert (tmp_path / "events").exists(), done.stdout + done.stderr
        events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
        found = {event["task"]: event for event in events if event["event"] == "task"}
        shared = [event["value"] for event in events if event["event"] == "shared"]
        found["said"] = {"text": done.stdout + done.stderr, "code": done.returncode}
        found["registered"] = shared[-1] if shared else {}
        return found

    return tasks


def test_every_module_without_an_action_of_its_own_is_routed(bundle: Path) -> None:
    folder = bundle / "ansible_collections/tpu/fleet"
    routed = yaml.safe_load((folder / "meta/runtime.yml").read_text())["plugin_routing"]["action"]
    actions = {path.stem for path in (folder / "plugins/action").glob("*.py")}
    modules = {path.stem for path in (folder / "plugins/modules").glob("*.py")} - {"__init__"}
    assert set(routed) == modules - actions
    assert {route["redirect"] for route in routed.values()} == {"tpu.fleet.in_process"}
    assert "plugin_routing" not in yaml.safe_load((ROOT / "meta/runtime.yml").read_text())


def host_file(path: Path, content: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "write",
        "tpu.fleet.host_files": {"files": [{"path": str(path), "content": content}]},
        "register": "result",
        **more,
    }


def test_a_module_does_in_it_what_it_does_in_a_process_of_its_own(run: Run, tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    here = run(host_file(path, "héllo {{ '{{' }}\n"), words=("--diff",))
    # Whatever has an environment of its own gets a process of its own.
    there = run(
        host_file(other, "héllo {{ '{{' }}\n", environment={"LANG": "C"}), words=("--diff",)
    )
    assert other.exists(), there["said"]["text"]
    assert path.read_text() == other.read_text() == "héllo {{\n"
    assert path.stat().st_mode == other.stat().st_mode
    assert "AnsiballZ" not in here["said"]["text"]
    assert "AnsiballZ" in there["said"]["text"]
    assert here["write"]["status"] == there["write"]["status"] == "changed"
    assert here["write"]["diff"] == there["write"]["diff"].replace(str(other), str(path))
    assert set(here["registered"]) == set(there["registered"])
    again = run(host_file(path, "héllo {{ '{{' }}\n"))
    assert again["write"]["status"] == "ok"


def test_check_mode_changes_nothing(run: Run, tmp_path: Path) -> None:
    told = run(host_file(tmp_path / "file", "x\n"), words=("--check",))
    assert told["write"]["status"] == "changed"
    assert not (tmp_path / "file").exists()


def test_a_failure_is_told_in_the_words_of_the_module(run: Run, tmp_path: Path) -> None:
    told = run({"name": "write", "tpu.fleet.host_files": {"files": [{"content": "x"}]}})
    assert told["said"]["code"] == 2
    assert told["write"]["status"] == "failed"
    assert "path" in told["write"]["msg"]
    assert "Traceback" not in told["write"]["msg"]


def test_what_no_log_hides_is_not_told(run: Run, tmp_path: Path) -> None:
    task = host_file(tmp_path / "file", "secret-of-the-test\n", no_log=True)
    del task["register"]
    told = run(task)
    assert (tmp_path / "file").read_text() == "secret-of-the-test\n"
    assert "secret-of-the-test" not in told["said"]["text"]
    assert told["write"]["msg"] == "censored: no_log is set"


@pytest.mark.parametrize("elsewhere", [{}, {"LANG": "C"}], ids=["here", "in-a-process"])
def test_the_settings_of_a_role_arrive_and_its_secrets_are_not_told(
    run: Run, elsewhere: dict[str, str]
) -> None:
    secret = {"name": "of-the-test", "env": {"TOKEN": "secret-of-the-test"}}
    task = {
        "name": "write",
        "tpu.fleet.env_secrets": "{{ 'env_secrets' | tpu.fleet.role_settings }}",
        "vars": {
            "fleet_secrets": [secret],
            "env_secrets_slice": "pair",
            "fleet_google_secrets_project": "",
            "ansible_inject_invocation": True,
        },
        "environment": elsewhere,
    }
    told = run(task, words=("--check", "--diff"))
    assert told["write"]["status"] == "changed", told["said"]["text"]
    assert "write /etc/tpu-fleet/secrets/of-the-test.env" in told["write"]["diff"]
    text = told["said"]["text"]
    # Ansible shows each module's arguments here.
    assert '"TOKEN": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"' in text
    assert "secret-of-the-test" not in text
    assert ("AnsiballZ" in text) == bool(elsewhere)


def test_no_folder_is_left_behind(run: Run, tmp_path: Path, temporary: Path) -> None:
    run(host_file(tmp_path / "file", "x\n"))
    assert list(temporary.glob("ansible-tpu-fleet-*")) == []


def test_long_texts_are_shortened_to_lines_that_a_controller_reads(
    run: Run, tmp_path: Path
) -> None:
    lines, line = "it says 😀\n" * 50_000, "é" * 300_000
    said = run(
        host_file(tmp_path / "lines", lines),
        {"name": "say", "ansible.builtin.debug": {"msg": line}},
        words=("--check", "--diff"),
    )
    assert max(map(len, (tmp_path / "events").read_bytes().splitlines())) < 1 << 18
    assert said["write"]["diff"].startswith("--- before")
    shown = said["write"]["diff"].count("it says 😀\n")
    assert shown > 1000
    # The last line of a diff is empty.
    assert said["write"]["diff"].endswith(f"... {50_001 - shown} more lines are not shown\n")
    assert said["say"]["msg"].startswith("ééé")
