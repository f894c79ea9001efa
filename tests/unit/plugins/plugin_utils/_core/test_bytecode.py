"""The inventory plugin imports the collection's code from Python's bytecode cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[5]
PROGRAM = """
import sys
from ansible.plugins.loader import init_plugin_loader, inventory_loader

init_plugin_loader([sys.argv[1]])
inventory_loader.get("tpu.fleet.tpu")
ours = "ansible_collections.tpu.fleet.plugins."
for name, module in sorted(sys.modules.items()):
    if name.startswith((ours + "module_utils._", ours + "plugin_utils._")):
        print(name.removeprefix(ours), type(module.__spec__.loader).__name__)
"""


def test_the_code_of_the_collection_is_compiled_once() -> None:
    words = [sys.executable, "-c", PROGRAM, str(ROOT / "collections")]
    text = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = dict(line.split() for line in text.splitlines())
    # What brings the cache is itself imported by Ansible.
    by_ansible = {name for name, loader in found.items() if loader != "SourceFileLoader"}
    assert by_ansible == {"plugin_utils._core", "plugin_utils._core.bytecode"}
    assert "module_utils._tpu.client" in found
