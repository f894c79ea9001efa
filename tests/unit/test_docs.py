"""The pages that are made from the code are those that are committed; links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import (
    AROUND as AROUND_THE_SLICES,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import QUEUE
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import LISTS, SCALARS, Key
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import FLEET_NAMES
from ansible_collections.tpu.fleet.plugins.module_utils._schema.old_keys import OLD_KEYS
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

from tpu_fleet.begin.answers import Answers
from tpu_fleet.cli import main as tpu_fleet
from tpu_fleet.commands.cloud import ENDPOINT
from tpu_fleet.commands.init import next_steps

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import render_docs  # noqa: E402 - scripts are no package

DOCS = ROOT / "docs"
PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in (
        *("*.md", "docs/*.md", "docs/internals/*.md", "local_cloud/README.md"),
        *("roles/*/README.md", "examples/*/README.md"),
    )
    for page in ROOT.glob(pattern)
)
GENERATED = [
    *("commands.md", "errors.md", "fleet-file.md", "internals/gcloud.md", "local-cloud.md"),
    *("playbooks.md", "command_line.json", "fleet.schema.json", "user_shell/README.md"),
]
ROLES = role_keys(fleet_options())
ROLE_READMES = sorted((ROOT / "roles").glob("*/README.md"))
EXAMPLE = yaml.safe_load((DOCS / "fleet-file.example.yml").read_text())


@pytest.fixture(scope="module")
def rendered() -> Iterator[None]:
    """Let the script render each page once, for all of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        for part in ("PAGES", "OF_PROGRAM", "OF_ROLES"):
            pages = getattr(render_docs, part)
            patch.setattr(render_docs, part, {name: cache(page) for name, page in pages.items()})
        yield


@pytest.mark.usefixtures("rendered")
def test_generated_pages_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert render_docs.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.usefixtures("rendered")
def test_outdated_pages_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render_docs.main(["--dir", str(tmp_path)]) == 0
    for name in GENERATED:
        page = tmp_path / name
        of_role = ROOT / "roles" if name.endswith("README.md") else DOCS
        folder = ROOT / "src/tpu_fleet" if name.endswith(".json") else of_role
        assert page.read_text() == (folder / name).read_text()
        page.write_text(page.read_text() + "by hand")
    capsys.readouterr()
    assert render_docs.main(["--check", "--dir", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    for name in GENERATED:
        assert f"{tmp_path / name} is outdated" in told


def without_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page: those written out, and those that headings get."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = without_blocks((ROOT / name).read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _sep, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page.read_text()), target


def test_example_is_a_good_fleet_file() -> None:
    assert [str(problem) for problem in check_fleet_file(EXAMPLE, ROLES)] == []


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_an_old_name_of_the_fleet_file(name: str) -> None:
    # Old keys of one word, such as owner, mean other things elsewhere.
    keys = {key for old in OLD_KEYS.values() for key in old if "_" in key}
    named = set(re.findall(r"`(\w+)`", (ROOT / name).read_text()))
    about_roles = name.startswith(("docs/internals/", "roles/")) or name == "CONTRIBUTING.md"
    assert named & (keys if about_roles else keys | FLEET_NAMES.keys()) == set()


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
    assert missing({**NOTIFIED, **AROUND_THE_SLICES}, [EXAMPLE], "") == []
    for variable, keys in LISTS.items():
        assert missing(keys, EXAMPLE[variable], variable) == []
    # What only a playbook gives to a role is not in a fleet file.
    of_roles = {name: ROLES[name] for name in FLEET_NAMES.values() if name in ROLES}
    assert missing(of_roles, [EXAMPLE], "") == []
    assert [name for name in EXAMPLE if not name.startswith("fleet_")] == []


def test_every_variable_has_a_section_with_its_own_example_alone() -> None:
    page = (DOCS / "fleet-file.md").read_text()
    for variable in (*LISTS, *NOTIFIED, *SELF_SETUP, *AROUND_THE_SLICES):
        section = page.partition(f"\n## {variable}\n")[2].partition("\n## ")[0]
        (block,) = re.findall(r"(?s)```yaml\n(.*?)```", section)
        assert list(yaml.safe_load(block)) == [variable]


def test_every_variable_and_key_has_its_place_in_the_reference_and_in_the_example() -> None:
    page = (DOCS / "fleet-file.md").read_text()
    readmes = "".join(path.read_text() for path in ROLE_READMES)
    common = page.partition("## Common keys\n")[2].partition("\n## ")[0]
    of_roles = {name: key for name, key in ROLES.items() if name in FLEET_NAMES.values()}
    fleet = {**SCALARS, **NOTIFIED, **SELF_SETUP, **AROUND_THE_SLICES}
    lists = {name: Key("list", options=keys) for name, keys in LISTS.items()}
    for name, key in {**fleet, **lists, **of_roles}.items():
        assert name in EXAMPLE, name
        assert f"`{name}`" in page or f"## {name}\n" in page, name
        section = re.split(r"\n###? ", page.partition(f"## {name}\n")[2])[0]
        # A setting of a role has its row in the role's README, and so have its keys.
        where = section + common if section else page if name in fleet else readmes
        rows = set(re.findall(r"^`(\w+)`", where, re.MULTILINE))
        assert set(key.options) <= rows, name
        if name not in lists and not key.options:
            own = f" In the fleet file `{name}`." in readmes
            assert name in rows or f"## {name}\n" in page or own, name


def test_the_contents_name_each_page_and_begin_with_the_first_steps() -> None:
    contents = (DOCS / "README.md").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)", contents))
    steps = re.findall(r"(?m)^\d\. .*?\]\(([^)]+)\)", contents)
    assert steps == ["install.md", "before-you-start.md", "first-training.md", "runs.md"]


def test_readme_is_short_and_has_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 700
    typed = re.findall(r"(?m)^\$ (make .*)$", readme)
    assert typed == ["make demo", "make test"]
    # CI runs what it says.
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("exec make test")
    (fleet,) = re.findall(r"(?s)```yaml\n(.*?)```", readme)
    assert len(fleet.splitlines()) <= 20


def test_the_reference_of_the_fleet_file_is_short() -> None:
    assert len((DOCS / "fleet-file.md").read_text().split()) <= 7000


def test_every_variable_of_the_playbooks_is_explained() -> None:
    """What a person may set is what has a default, save for what tasks set for each other."""
    told = {
        *("fleet_find_attempt", "fleet_expected_workers", "fleet_admitted_keys", "fleet_teardown"),
        *(
            "fleet_finish",
            "fleet_collect_run",
            "fleet_collect_everything",
            "fleet_drill_went",
            "fleet_applied",
        ),
    }
    page = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    for playbook in (ROOT / "playbooks").rglob("*.yml"):
        found = re.findall(r"\b(fleet_\w+) \| default\(([^)]*)\)", playbook.read_text())
        for name, default in found:
            if name in told:
                continue
            rows = [line for line in page.splitlines() if f"`{name}`" in line or name in line]
            assert rows, f"{name} in {playbook.name}"
            if default.isdigit():
                assert any(f"`{default}`" in row for row in rows), f"{name}: {default}"


def test_people_apply_the_fleet_file_by_the_command() -> None:
    typed = re.compile(r"(?:\$ |`)ansible-playbook (?:tpu\.fleet\.site|site\.yml)")
    # What both are is on these pages.
    both = {"apply.md", "install.md"}
    pages = [page for page in DOCS.glob("*.md") if page.name not in both]
    assert [page.name for page in pages if typed.search(page.read_text())] == []
    assert all(typed.search((DOCS / name).read_text()) for name in both)


def test_the_tutorial_goes_on_as_init_says() -> None:
    typed = re.findall(r"^\$ (.*)$", (DOCS / "tutorial.md").read_text(), re.MULTILINE)
    steps = next_steps(Path("lab"), Answers(endpoint=ENDPOINT, slice="pair"))
    places = [typed.index(step) for step, _about in steps]
    assert places == sorted(places)


PICTURES = sorted((DOCS / "pictures").iterdir())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_are_shown_and_small_and_load_nothing(picture: Path) -> None:
    pages = "".join((ROOT / name).read_text() for name in PAGES)
    assert f"pictures/{picture.name})" in pages
    assert picture.stat().st_size < 300_000
    if picture.suffix == ".svg":
        loads = r"<script|@import|(?:href|src)=\"(?!#)|url\([\"']?(?!#)"
        assert re.findall(loads, picture.read_text()) == []


def blocks(*languages: str) -> list[Any]:
    found = []
    for name in PAGES:
        # Its blocks are the parts of the example, which is checked as a whole.
        if name == "docs/fleet-file.md":
            continue
        text = (ROOT / name).read_text()
        fenced = re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", text, re.DOTALL)
        found += [pytest.param(block, id=f"{name}-{i}") for i, block in enumerate(fenced)]
    return found


def variables_of(data: Any) -> dict[str, Any]:
    """What a block sets: itself, or the variables of its plays and of their roles."""
    if isinstance(data, dict):
        return data
    parts = [part for play in data for part in (play, *play.get("roles", ()))]
    return {name: value for part in parts for name, value in part.get("vars", {}).items()}


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
# What blocks speak of and do not declare: the rest of the fleet file around them.
AROUND: dict[str, Any] = {
    "fleet_slices": [
        {"name": name, "accelerator_type": "v4-16", "zone": "us-central2-b"}
        for name in ("pair", "solo")
    ],
    "fleet_users": [{"name": name, "uid": uid} for uid, name in enumerate(("alice", "bob"), 2001)],
    "fleet_venvs": [{"name": "jax", "path": "/opt/venvs/jax"}],
    "fleet_code": [
        {"name": name, "user": "root", "local_path": f"/home/{name}"}
        for name in ("digits", "models")
    ],
}


@pytest.mark.parametrize("block", blocks("yaml"))
def test_yaml_in_the_docs_is_a_good_fleet_file(block: str) -> None:
    block = re.sub(r"ssh-ed25519 AAAA…|\{\{ fleet_ssh_public_key \}\}", KEY, block)
    data = variables_of(yaml.safe_load(block))
    known = {
        name: data[name]
        for name in (*SCALARS, *LISTS, *NOTIFIED, *SELF_SETUP, *QUEUE, *ROLES)
        if name in data and "{{" not in str(data[name])
    }
    known = {"fleet_allocations": "unrestricted", "fleet_zone": "us-central2-b", **AROUND, **known}
    assert [str(problem) for problem in check_fleet_file(known, ROLES)] == []


@pytest.mark.parametrize("block", blocks("python"))
def test_python_in_the_docs_can_be_read(block: str) -> None:
    ast.parse(block)


@pytest.mark.parametrize("block", blocks("json"))
def test_json_in_the_docs_can_be_read(block: str) -> None:
    json.loads(block)


def shell() -> list[Any]:
    """Lines of examples after a prompt, and the whole of scripts."""
    lines = [
        pytest.param(line[2:], id=line[2:])
        for block in blocks("console")
        for line in block.values[0].splitlines()
        if line.startswith("$ ") and not line.endswith("\\")
    ]
    return [*lines, *blocks("sh")]


@pytest.mark.parametrize("code", shell())
def test_shell_in_the_docs_can_be_read(code: str) -> None:
    done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def words_of(line: str) -> list[str]:
    """The first command of a line of shell."""
    words = shlex.split(line.removesuffix("; echo $?"), comments=True)
    ends = [words.index(sign) for sign in ("<", ">", "|", "&&") if sign in words]
    return words[: min(ends, default=len(words))]


def commands() -> list[Any]:
    lines = [line for block in blocks("console") for line in block.values[0].splitlines()]
    return [words_of(line[2:]) for line in lines if line.startswith("$ ")]


def mentioned() -> list[Any]:
    """The commands that the text names, without those that are patterns."""
    text = "".join(without_blocks((ROOT / name).read_text()) for name in PAGES)
    spans = re.findall(r"`((?:tpu-fleet|ansible-playbook|make) [^`]+)`", text)
    return [words_of(s) for s in dict.fromkeys(spans) if not re.search(r"…|<\w|\b[A-Z]{2,}\b", s)]


def check_command(words: list[str], whole: bool) -> None:
    """Check ours with their options, and what they need if it is the whole of a command.

    Of Ansible's the playbook and its variables, of make the targets.
    """
    if words[0] == "tpu-fleet":
        command: click.Command = tpu_fleet
        rest = words[1:]
        while isinstance(command, click.Group) and (whole or rest):
            found = command.get_command(click.Context(command), rest[0])
            assert found, rest[0]
            command, rest = found, rest[1:]
        if whole:
            command.make_context(words[-1], list(rest))
        else:
            options = {name for option in command.params for name in option.opts}
            given = rest[: rest.index("--")] if "--" in rest else rest
            assert {word for word in given if word.startswith("-")} <= options
    elif words[0] == "ansible-playbook":
        books = [word for word in words[1:] if word.startswith("tpu.fleet.") or ".yml" in word]
        for book in books:
            path = ROOT / "playbooks" / f"{book.removeprefix('tpu.fleet.')}.yml"
            assert path.exists() or (ROOT / book).exists(), book
        variables = [words[i + 1].partition("=")[0] for i, word in enumerate(words) if word == "-e"]
        text = "".join(path.read_text() for path in (ROOT / "playbooks").rglob("*.yml"))
        for variable in variables:
            assert re.search(rf"\b{variable}\b", text), variable
    elif words[0] == "make":
        targets = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= {name for names in targets for name in names.split()}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_in_the_docs_exist(words: list[str]) -> None:
    check_command(words, whole=True)


@pytest.mark.parametrize("words", mentioned(), ids=" ".join)
def test_commands_that_the_text_names_exist(words: list[str]) -> None:
    check_command(words, whole=False)


@pytest.mark.parametrize(
    "line",
    [
        "tpu-fleet statsu",
        "tpu-fleet status --jsn",
        "ansible-playbook tpu.fleet.sitee",
        "ansible-playbook tpu.fleet.teardown -e tear=all",
        "make demon",
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_wrong_commands_are_noticed(line: str, whole: bool) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        check_command(words_of(line), whole)
