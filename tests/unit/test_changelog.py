"""The changelog, the version, and what says since which version it exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
VERSION = str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"])
RELEASES: dict[str, Any] = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text())[
    "releases"
]
DOCUMENTED = ("callback", "filter", "inventory", "modules")
SINCE = re.compile(r"(?m)^(?: {4})?version_added: (\S+)$")


def documented() -> Iterator[tuple[str, str]]:
    """Yield each plugin and role with the version since which it exists."""
    plugins = [path for kind in DOCUMENTED for path in (ROOT / "plugins" / kind).glob("[!_]*.py")]
    roles = ROOT.glob("roles/*/meta/argument_specs.yml")
    internal = SINCE.search((ROOT / "plugins/doc_fragments/internal.py").read_text())
    for name, path in [(p.stem, p) for p in plugins] + [(p.parts[-3], p) for p in roles]:
        text = path.read_text()
        found = SINCE.search(text) or ("- tpu.fleet.internal\n" in text and internal)
        yield name, found[1] if found else ""


def listed(release: dict[str, Any]) -> set[str]:
    """Return the names of what a release lists as new."""
    new = [release.get("modules", []), *release.get("plugins", {}).values()]
    new += release.get("objects", {}).values()
    return {entry["name"] for entries in new for entry in entries}


def test_each_plugin_and_role_is_in_the_release_that_it_names() -> None:
    """Without a version it would be in none; under a name that is new it is new in the next one."""
    found = dict(documented())
    assert len(found) > 60
    assert [name for name, since in found.items() if not since] == []
    released = {version: listed(release) for version, release in RELEASES.items()}
    missing = [
        name for name, since in found.items() if since in released and name not in released[since]
    ]
    assert missing == []


def test_the_version_is_one_for_galaxy_and_for_wheels() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-dev0)?", VERSION)
    Version(VERSION)
    base, _hyphen, development = VERSION.partition("-")
    assert not (development and base in RELEASES)


def test_a_version_in_development_is_not_released(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release", tmp_path / "scripts")
    (tmp_path / "galaxy.yml").write_text("version: 1.2.0-dev0\n")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "Begin")):
        subprocess.run([*git, *command], check=True)
    done = subprocess.run([tmp_path / "scripts/release"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Write the version of the release, 1.2.0, and commit it." in done.stderr


def test_the_changelog_has_no_markup_of_module_documentation() -> None:
    """It is reStructuredText, where C(name) stays as it is."""
    paths = [ROOT / "changelogs/changelog.yaml", *ROOT.glob("changelogs/fragments/*.yml")]
    found = [(path.name, re.findall(r"\b[BCEIMOPRV]\([^)]*\)", path.read_text())) for path in paths]
    assert [one for one in found if one[1]] == []
