"""The files of a new fleet. None is ever written over another."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

import ansible_collections.tpu.fleet as collection

from .answers import Answers, connection_file, fleet_file

SCHEMA = Path(__file__).parents[1] / "fleet.schema.json"
EDITOR = Path(".vscode/settings.json")
"""Files that may exist already, and stay."""
SETTINGS = {
    # Files of the language ansible get no schema, and Ansible's extension would claim these.
    "files.associations": {"**/group_vars/**/*.yml": "yaml", "**/*.tpu.yml": "yaml"},
    "yaml.schemas": {"./fleet.schema.json": "inventory/group_vars/all/*.yml"},
    "yaml.customTags": ["!vault scalar"],
}


def installed(part: str) -> Path:
    """Return a file or folder of the installed collection."""
    return Path(next(iter(collection.__path__))).resolve() / part


def files_of(answers: Answers) -> dict[Path, str]:
    """Return the content of each file, by its path in the folder of the fleet."""
    return {
        Path("inventory/fleet.tpu.yml"): connection_file(answers),
        Path("inventory/group_vars/all/fleet.yml"): fleet_file(answers),
        Path("ansible.cfg"): installed("examples/ansible.cfg").read_text(encoding="utf-8"),
        Path("fleet.schema.json"): SCHEMA.read_text(encoding="utf-8"),
        EDITOR: json.dumps(SETTINGS, indent=2) + "\n",
        **_example(answers),
    }


def _example(answers: Answers) -> dict[Path, str]:
    """Return the files of the bundled example, which become the user's own."""
    if not answers.code or not answers.code.example:
        return {}
    folder = installed(answers.code.example)
    return {
        Path(answers.code.name) / path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir())
        if path.suffix in (".py", ".txt")
    }


def in_the_way(folder: Path) -> list[str]:
    """Return which of the files a folder has already, apart from the editor's."""
    names = [name for name in files_of(Answers(project="x")) if name != EDITOR]
    return [str(name) for name in names if (folder / name).is_symlink() or (folder / name).exists()]


def write_all(folder: Path, files: Mapping[Path, str]) -> list[Path]:
    """Write files that are not there, all or none; return those that were written."""
    written: list[Path] = []
    try:
        for name, text in files.items():
            path = folder / name
            if name == EDITOR and path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    return written
