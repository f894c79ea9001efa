"""What a machine that applies the roles to itself is sent: filters and actions work there."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import ansible
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import (
    ACTIONS,
    ROOT,
    collection,
)

# Without the rest of the collection: only what came in the bundle can be imported.
PROGRAM = """
import sys
from ansible.plugins.loader import action_loader, filter_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
for name in sys.argv[2].split():
    assert sys.argv[1] in sys.modules[filter_loader.get(name).j2_function.__module__].__file__, name
for name in sys.argv[3].split():
    assert sys.argv[1] in sys.modules[action_loader.get(name, class_only=True).__module__].__file__
"""


def filters_of_roles() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "roles").rglob("*.yml")]
    return {name for text in texts for name in re.findall(r"\|\s*(tpu\.fleet\.\w+)", text)}


def test_filters_and_actions_can_be_used_from_a_bundle(tmp_path: Path) -> None:
    wanted, actions = filters_of_roles(), [f"tpu.fleet.{Path(name).stem}" for name in ACTIONS]
    assert {"tpu.fleet.role_plan", "tpu.fleet.role_problems"} <= wanted
    with tarfile.open(fileobj=io.BytesIO(collection())) as archive:
        archive.extractall(tmp_path, filter="data")
    names = (" ".join(sorted(wanted)), " ".join(["tpu.fleet.in_process", *actions]))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *names]
    # Under ansible-test, Ansible is in a folder of its own and not in the interpreter's.
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(ansible.__file__).parent.parent)}
    subprocess.run(command, check=True, cwd=tmp_path, env=env)
