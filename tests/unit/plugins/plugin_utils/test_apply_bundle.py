"""What a machine that applies the roles to itself is sent: the filters of the roles work there."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_bundle import ROOT, collection

# Without the rest of the collection: only what came in the bundle can be imported.
PROGRAM = """
import sys
from ansible.plugins.loader import filter_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
for name in sys.argv[2:]:
    assert sys.argv[1] in sys.modules[filter_loader.get(name).j2_function.__module__].__file__, name
"""


def filters_of_roles() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "roles").rglob("*.yml")]
    return {name for text in texts for name in re.findall(r"\|\s*(tpu\.fleet\.\w+)", text)}


def test_filters_of_roles_can_be_used_from_a_bundle(tmp_path: Path) -> None:
    wanted = filters_of_roles()
    assert {"tpu.fleet.role_plan", "tpu.fleet.role_problems"} <= wanted
    with tarfile.open(fileobj=io.BytesIO(collection())) as archive:
        archive.extractall(tmp_path, filter="data")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *sorted(wanted)]
    subprocess.run(command, check=True, cwd=tmp_path, env={"HOME": str(tmp_path)})
