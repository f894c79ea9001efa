"""Root's own Python takes nothing from an environment, a home or the folder that it starts in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("roles", "plugins", "playbooks", "src/tpu_fleet")
KINDS = {".py", ".j2", ".yml", ".sh", ".service"}
# Words that begin so are packages, folders and versions.
_PYTHON = re.compile(r"(?:/usr/bin/)?python3(?![\w.*-])")
_ISOLATED = re.compile(r"""["']?[,\s]*(?:-\s+)?["']?-I\b""")
# What starts no Python of root's on a machine: texts, settings of Ansible's, and others' programs.
NOT_OF_ROOT = {
    ("plugins/action/first_boot.py", 'task_vars or {}).get("ansible_python_interpreter")'),
    ("plugins/module_utils/_apply_agent/work.py", '"ansible_python_interpreter"'),
    ("plugins/module_utils/_roles/host_base/first_boot.py", "has no Python at /usr/bin/python3"),
    ("plugins/module_utils/_roles/host_base/first_boot.py", "sudo apt-get install python3."),
    ("plugins/modules/host_services.py", "command: [/usr/bin/python3, -m, http.server"),
}


def without_isolation(text: str, path: str) -> list[str]:
    """Return the lines that start Python without -I."""
    found = []
    for match in _PYTHON.finditer(text):
        begin, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        line = text[begin : end if end > 0 else None].strip()
        known = any(path.startswith(file) and part in line for file, part in NOT_OF_ROOT)
        if not known and not _ISOLATED.match(text[match.end() :]):
            found.append(f"{path}: {line}")
    return found


def test_every_start_of_roots_python_is_isolated() -> None:
    found, starts = [], 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS and path.is_file():
                text = path.read_text(encoding="utf-8")
                starts += len(_PYTHON.findall(text))
                found += without_isolation(text, str(path.relative_to(ROOT)))
    assert starts > 15
    assert found == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("ExecStart=/usr/bin/python3 /opt/x.py", 1),
        ("ExecStart=/usr/bin/python3 -I /opt/x.py", 0),
        ('["/usr/bin/python3", "-c", "1"]', 1),
        ('["/usr/bin/python3", "-I", "-c", "1"]', 0),
        ("- /usr/bin/python3\n- -c\n", 1),
        ("- /usr/bin/python3\n- -I\n- -c\n", 0),
        ("apt-get install python3-venv; ls lib/python3*/site-packages", 0),
    ],
)
def test_the_scan_sees_a_start_without_it(text: str, faults: int) -> None:
    assert len(without_isolation(text, "x.yml")) == faults


PROGRAMS = (
    ("roles/env_secrets/files/tpu_fleet_secrets.py", ["--help"]),
    ("roles/training_run/files/tpu_fleet_run.py", ["--help"]),
)


@pytest.mark.parametrize(("program", "words"), PROGRAMS)
def test_a_program_of_roots_runs_nothing_of_the_home_that_it_is_given(
    tmp_path: Path, program: str, words: list[str]
) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = tmp_path / f".local/lib/python{version}/site-packages"
    folder.mkdir(parents=True)
    (folder / "x.pth").write_text(f"import os; open('{tmp_path}/ran', 'w').close()\n")
    (tmp_path / "argparse.py").write_text(f"open('{tmp_path}/ran', 'w').close()\n")
    python = Path(os.path.realpath(sys.executable))
    # As the unit and the wrapper of the role start it.
    begin = [str(python), "-I"]
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*begin, str(ROOT / program), *words], env=env, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
