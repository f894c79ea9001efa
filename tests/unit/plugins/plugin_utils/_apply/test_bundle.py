"""What a machine that applies the roles to itself is sent: filters and actions work there."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import ansible
import pytest
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


def packed(root: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of each file in the bundle of a checkout."""
    collection.cache_clear()
    with tarfile.open(fileobj=io.BytesIO(collection(root))) as archive:
        members = [(one, archive.extractfile(one)) for one in archive.getmembers()]
        return {
            one.name.removeprefix("ansible_collections/tpu/fleet/"): (file.read(), one.mode)
            for one, file in members
            if file
        }


def test_each_change_of_a_file_is_in_the_next_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that leaves its size and its times, as a read-only image of another version does."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "checkout"
    role, module = root / "roles/one/files/run", root / "plugins/modules/some.py"
    for path, text in ((role, "first"), (module, ""), (root / "meta/runtime.yml", "---\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert packed(root)["roles/one/files/run"] == (b"first", 0o644)
    before = role.stat()
    role.write_text("other")
    os.utime(role, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert packed(root)["roles/one/files/run"] == (b"other", 0o644)
    role.chmod(0o755)
    assert packed(root)["roles/one/files/run"] == (b"other", 0o755)
    role.rename(role.with_name("runs"))
    assert {"roles/one/files/run", "roles/one/files/runs"} & set(packed(root)) == {
        "roles/one/files/runs"
    }
    assert b'"some"' in packed(root)["meta/runtime.yml"][0]
    module.with_name("new.py").write_text("")
    assert b'"new"' in packed(root)["meta/runtime.yml"][0]
    role.with_name("runs").write_text("first")
    role.with_name("runs").chmod(0o644)
    assert packed(root)["roles/one/files/runs"] == (b"first", 0o644)
