"""Write plugins/module_utils/_host/pinned.py: what root installs on machines, with hashes.

`make lock` calls this after it made requirements/machine-*.txt and requirements/bootstrap.txt.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.uv_wheel import (
    usual_index,
)

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "plugins" / "module_utils" / "_host" / "pinned.py"
# The ansible-core of each file, by the oldest Python that it runs on.
FILES = {"3.12": "machine-3.12.txt", "3.11": "machine-3.11.txt"}
INDEX = (os.environ.get("UV_DEFAULT_INDEX") or usual_index()).rstrip("/")
PROCESSORS = ("x86_64", "aarch64")
# The files that a machine may get: wheels for any, or for CPython on Linux and such a processor.
FILES_OF_MACHINES = re.compile(
    r".*-py3-none-any[.]whl"
    rf"|.*-(py3-none|cp31[1-4]-cp31[1-4])-manylinux\w*_({'|'.join(PROCESSORS)})[.\w]*[.]whl"
)
# What ansible-core imports for its vault and for Galaxy only: 18 of 45 MB that no machine uses.
NOT_USED = ("cffi", "cryptography", "pycparser", "resolvelib")
HEAD = '''# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root installs on machines from a package index. Written by `make lock`."""

from __future__ import annotations

from typing import Dict, Tuple

Words = Tuple[str, ...]
'''
TAIL = '''

def requirements(*pins: str) -> str:
    """Write versions for a requirements file, with the hashes that are known."""
    return "".join(
        " ".join([pin, *(f"--hash=sha256:{value}" for value in HASHES.get(pin, ()))]) + "\\n"
        for pin in pins
    )
'''


def read(name: str) -> dict[str, list[str]]:
    """Read a requirements file: SHA-256 hashes by name==version."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines():
        pinned = re.match(r"([A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+)(.*)", line)
        if pinned:
            hashes = found.setdefault(pinned[1], [])
            if ";" in pinned[2]:
                raise SystemExit(f"{name}: {line!r} is for some machines only")
        hashes += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return found


def for_machines(pin: str, hashes: list[str]) -> list[str]:
    """Return the hashes of the files that a machine may get of a package."""
    name = pin.partition("==")[0]
    wanted = {"Accept": "application/vnd.pypi.simple.v1+json"}
    answer = requests.get(f"{INDEX}/{name}/", headers=wanted, timeout=60)
    answer.raise_for_status()
    named = {file["hashes"]["sha256"]: file["filename"] for file in answer.json()["files"]}
    found = {one: named[one] for one in hashes if FILES_OF_MACHINES.fullmatch(named[one])}
    for processor in PROCESSORS:
        if not any(processor in file or "-any." in file for file in found.values()):
            raise SystemExit(f"{pin} has no wheel for machines with {processor}")
    return list(found)


def text() -> str:
    """Write the whole file."""
    known = read("bootstrap.txt")
    engines = {
        python: {
            pin: hashes
            for pin, hashes in read(name).items()
            if pin.partition("==")[0] not in NOT_USED
        }
        for python, name in FILES.items()
    }
    for pins in engines.values():
        known.update(pins)
    lines = [
        HEAD,
        "# SHA-256 of the files of a version that a machine may get.\n",
        "HASHES: Dict[str, Words] = {\n",
    ]
    for pin, hashes in sorted(known.items()):
        values = sorted(for_machines(pin, hashes))
        if len(values) == 1:
            lines.append(f'    "{pin}": ("{values[0]}",),\n')
            continue
        lines.append(f'    "{pin}": (\n')
        lines += [f'        "{value}",\n' for value in values]
        lines.append("    ),\n")
    lines += ["}\n", "# ansible-core and what it imports, by the oldest Python that runs it.\n"]
    lines.append("ENGINES: Dict[str, Words] = {\n")
    for python, pins in engines.items():
        lines.append(f'    "{python}": (\n')
        lines += [f'        "{pin}",\n' for pin in sorted(pins)]
        lines.append("    ),\n")
    lines.append("}\n")
    return "".join([*lines, TAIL])


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}\n")
