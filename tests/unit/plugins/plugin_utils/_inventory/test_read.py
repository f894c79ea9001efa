"""An inventory that several threads of a command read at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[5]
# A process of its own: Ansible's loader of plugins fails in the first moments alone.
THREADS = """
import sys, threading
from pathlib import Path
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory
folder = Path(sys.argv[2])
begin = threading.Barrier(5)
def read():
    begin.wait()
    said = Inventory.read([str(folder / "hosts")], folder).said("about", 0)
    sys.stdout.write(f"{said} ")
threads = [threading.Thread(target=read) for _ in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_that_read_at_once_all_get_it(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost about='{{ 20 + 1 }}'\n")
    words = [sys.executable, "-c", THREADS, str(ROOT / "collections"), str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.split() == ["21"] * 5, ended.stderr
