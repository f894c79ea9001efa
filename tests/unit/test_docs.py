"""The pages that are made from the code are those that are committed; links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import LISTS, SCALARS, Key
from ansible_collections.tpu.fleet.plugins.plugin_utils.role_specs import role_options

from tpu_fleet.cli import main as tpu_fleet

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
GENERATED = [
    *("errors.md", "fleet-file.md", "gcloud.md", "local-cloud.md"),
    *("command_line.json", "fleet.schema.json"),
]
ROLES = role_keys(role_options())
EXAMPLE = yaml.safe_load((DOCS / "fleet-file.example.yml").read_text())


def render(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/render_docs.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_generated_pages_are_current() -> None:
    done = render("--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", GENERATED)
def test_outdated_page_is_noticed(tmp_path: Path, name: str) -> None:
    assert render("--dir", str(tmp_path)).returncode == 0
    assert render("--check", "--dir", str(tmp_path)).returncode == 0
    page = tmp_path / name
    page.write_text(page.read_text() + "by hand")
    done = render("--check", "--dir", str(tmp_path))
    assert done.returncode == 1
    assert f"{page} is outdated" in done.stdout


def anchors(text: str) -> set[str]:
    """The anchors of a page: those written out, and those that headings get."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = (DOCS / name).read_text()
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _sep, anchor = target.partition("#")
        page = (DOCS / path) if path else DOCS / name
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page.read_text()), target


def test_example_is_a_good_fleet_file() -> None:
    assert [str(problem) for problem in check_fleet_file(EXAMPLE, ROLES)] == []


def missing(keys: Mapping[str, Key], entries: list[Any], where: str) -> list[str]:
    """The keys that no entry of the example has."""
    found = [f"{where}.{name}" for name in keys if not any(name in entry for entry in entries)]
    for name, key in keys.items():
        if key.options:
            given = [entry[name] for entry in entries if name in entry]
            inner = [i for value in given for i in (value if key.type == "list" else [value])]
            found += missing(key.options, inner, f"{where}.{name}")
    return found


def test_example_has_every_key() -> None:
    assert missing(SCALARS, [EXAMPLE], "") == []
    assert missing(NOTIFIED, [EXAMPLE], "") == []
    for variable, keys in LISTS.items():
        assert missing(keys, EXAMPLE[variable], variable) == []
    # What a playbook tells a role is not in a fleet file.
    told = yaml.safe_load((ROOT / "playbooks/vars/apply.yml").read_text())
    with_keys = {v: key for v, key in ROLES.items() if key.options and v not in told}
    assert missing(with_keys, [EXAMPLE], "") == []


def test_every_variable_of_the_playbooks_is_explained() -> None:
    """What a person may set is what has a default, save for what tasks tell each other."""
    told = {
        *("fleet_find_attempt", "fleet_expected_workers", "fleet_admitted_keys", "fleet_teardown"),
        *("fleet_finish", "fleet_collect_everything", "fleet_drill_went"),
    }
    page = "".join(page.read_text() for page in DOCS.glob("*.md"))
    for playbook in (ROOT / "playbooks").rglob("*.yml"):
        found = re.findall(r"\b(fleet_\w+) \| default\(([^)]*)\)", playbook.read_text())
        for name, default in found:
            if name in told:
                continue
            rows = [line for line in page.splitlines() if f"`{name}`" in line or name in line]
            assert rows, f"{name} in {playbook.name}"
            if default.isdigit():
                assert any(f"`{default}`" in row for row in rows), f"{name}: {default}"


def blocks(language: str) -> list[Any]:
    found = []
    for page in [*DOCS.glob("*.md"), ROOT / "README.md"]:
        # Its blocks are the parts of the example, which is checked as a whole.
        if page.name == "fleet-file.md":
            continue
        text = page.read_text()
        for index, block in enumerate(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)):
            found.append(pytest.param(block, id=f"{page.name}-{index}"))
    return found


@pytest.mark.parametrize("block", blocks("yaml"))
def test_yaml_in_the_docs_is_a_good_fleet_file(block: str) -> None:
    data = yaml.safe_load(block)
    known = {
        name: data[name]
        for name in (*SCALARS, *LISTS, *NOTIFIED, *SELF_SETUP, *ROLES)
        if name in data
    }
    if "fleet_slices" in known:
        known = {"fleet_allocations": "unrestricted", "fleet_zone": "us-central2-b", **known}
    people = [{"name": name, "uid": uid} for uid, name in enumerate(("alice", "bob"), 2001)]
    known.setdefault("user_accounts_users", people)
    assert [str(problem) for problem in check_fleet_file(known, ROLES)] == []


def commands() -> list[Any]:
    lines = [line for block in blocks("console") for line in block.values[0].splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_in_the_docs_exist(words: list[str]) -> None:
    """Ours with all their options; of Ansible's, the playbook and its variables."""
    if words[0] == "tpu-fleet":
        command: click.Command = tpu_fleet
        rest = words[1:]
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), rest[0])
            assert found, rest[0]
            command, rest = found, rest[1:]
        command.make_context(words[-1], list(rest))
    elif words[0] == "ansible-playbook":
        books = [word for word in words[1:] if word.startswith("tpu.fleet.") or ".yml" in word]
        for book in books:
            path = ROOT / "playbooks" / f"{book.removeprefix('tpu.fleet.')}.yml"
            assert path.exists() or (ROOT / book).exists(), book
        variables = [words[i + 1].partition("=")[0] for i, word in enumerate(words) if word == "-e"]
        text = "".join(path.read_text() for path in (ROOT / "playbooks").rglob("*.yml"))
        for variable in variables:
            assert re.search(rf"\b{variable}\b", text), variable
