"""Texts that people read: help, descriptions, names of tasks, docstrings, comments, messages.

They are in present-day technical English: the subject is a component, the verb is concrete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tpu_fleet.cli import main
from tpu_fleet.history.causes import WORDS
from tpu_fleet.page.words import TITLES

ROOT = Path(__file__).resolve().parents[2]
# Persons that are not named, machines that speak or believe, and translated words.
OLD_WORDS = re.compile(
    r"\b(some(?:body|one)|no(?:body| one)|any(?:body|one)|every(?:body|one)|who(?:m|so)?ever|anew|"
    r"mend(?:s|ed|ing)?|of ours|none of our|what is ours|(?:is|are|was|were) to (?:be|hold|have)|"
    r"tell(?:s|ing)?|told|believe[sd]?|hears?|heard|made again|"
    r"(?:for|of|by|with|to|from|than) who)\b|"
    # As the subject of a sentence.
    r"(?:^|\. )(?:Who|Whose) ",
    re.IGNORECASE,
)
# Names of options, values and files are not prose, nor is code in backticks or the user nobody.
# The last two stand on hosts: a cause that event logs keep, and the descriptions of mount units,
# which a change would mount again.
MARKUP = re.compile(
    r"\b(?:C|O|V|RV|E|P|M|I|B)\([^)]*\)|\{\{.*?\}\}|\{[^{}]*\}|`[^`]*`|\buser nobody\b|"
    r"\btold to stop\b|\bwhen somebody looks\b"
)
PROSE = {"description", "short_description", "help", "notes"}
PRODUCT = ("plugins", "roles", "src", "local_cloud/src")
OTHERS = ("tests", "local_cloud/tests", "benchmarks", "scripts", "examples")
# With a group where it begins a line, as a docstring does.
BLOCK = re.compile(r'(?ms)(^ *r?)?"""(.*?)"""')
COMMENT = re.compile(r"(?m)(?:^ *#.*\n)+")
LITERAL = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"((?:[^"\\\n]|\\.)*)\"""")


def _prose(found: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield each text under a key of prose, with its place."""
    if isinstance(found, dict):
        for key, value in found.items():
            texts = value if isinstance(value, list) else [value]
            if key in PROSE and all(isinstance(text, str) for text in texts):
                yield from ((f"{place}.{key}", text) for text in texts)
            else:
                yield from _prose(value, f"{place}.{key}")
    elif isinstance(found, list):
        for index, item in enumerate(found):
            yield from _prose(item, f"{place}[{index}]")


def of_plugins() -> Iterator[tuple[str, str]]:
    """Yield the documentation of modules, filters and other plugins."""
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        for block in re.findall(
            r'(?s)\b(?:DOCUMENTATION|RETURN) = r?"""(.*?)"""', path.read_text()
        ):
            yield from _prose(yaml.safe_load(block), str(path.relative_to(ROOT)))


def of_roles() -> Iterator[tuple[str, str]]:
    """Yield the documentation of the roles' variables."""
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        yield from _prose(yaml.safe_load(path.read_text()), str(path.relative_to(ROOT)))


def of_commands() -> Iterator[tuple[str, str]]:
    """Yield the help of the commands, of which `make docs` writes this file."""
    path = ROOT / "src/tpu_fleet/command_line.json"
    yield from _prose(json.loads(path.read_text()), path.name)


def of_pages() -> Iterator[tuple[str, str]]:
    """Yield the whole help of the commands."""
    waiting: list[tuple[str, click.Command]] = [("tpu-fleet", main)]
    while waiting:
        name, command = waiting.pop()
        yield name, command.help or ""
        if isinstance(command, click.Group):
            within = click.Context(command)
            for each in command.list_commands(within):
                if found := command.get_command(within, each):
                    waiting.append((f"{name} {each}", found))


def of_ends() -> Iterator[tuple[str, str]]:
    """Yield what the page and the history call the ends of attempts, and events."""
    yield from (*WORDS.items(), *TITLES.items())


def of_keys() -> Iterator[tuple[str, str]]:
    """Yield the descriptions of the fleet file's keys, of which `make docs` writes this file."""
    path = ROOT / "src/tpu_fleet/fleet.schema.json"
    yield from _prose(json.loads(path.read_text()), path.name)


def of_tasks() -> Iterator[tuple[str, str]]:
    """Yield the names of plays and tasks."""
    paths = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/*/*.yml")]
    for path in sorted(paths):
        for name in re.findall(r"(?m)^\s*(?:- )?name: ([A-Z].*)$", path.read_text()):
            yield str(path.relative_to(ROOT)), name


def _sources(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the Python files below folders, each with its text."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT)
            if not path.is_symlink() and not any(part.startswith(".") for part in place.parts):
                yield str(place), path.read_text()


def _docstrings(source: str) -> list[str]:
    return [found[2].strip() for found in BLOCK.finditer(source) if found[1] is not None]


def _texts(source: str) -> Iterator[str]:
    """Yield the docstrings, comments and messages of a file, each without its line ends."""
    code = BLOCK.sub("None", source)
    comments, code = COMMENT.findall(code), COMMENT.sub("", code)
    # Literals that follow each other are one message.
    literals = LITERAL.finditer(re.sub(r'"\s*\n\s*[rf]*"', "", code))
    messages = [found[1] for found in literals if found[1] and " " in found[1]]
    beside = re.findall(r"  (# .*)", code)
    for text in (*_docstrings(source), *comments, *beside, *messages):
        yield " ".join(re.sub(r"(?m)^ *#:? ?", "", text).split())


def of_docstrings() -> Iterator[tuple[str, str]]:
    """Yield the first line of each docstring of the tree."""
    for place, source in _sources([*PRODUCT, *OTHERS]):
        for text in _docstrings(source):
            line = text.partition("\n")[0]
            yield f"{place}: {line}", line


def of_code() -> Iterator[tuple[str, str]]:
    """Yield all docstrings, comments and messages of the product."""
    for place, source in _sources(PRODUCT):
        yield from ((f"{place}: {text}", text) for text in _texts(source))


def of_templates() -> Iterator[tuple[str, str]]:
    """Yield what the pages for browsers say, and the lines of their programs."""
    for path in sorted((ROOT / "src").rglob("*.j[2s]")):
        name = str(path.relative_to(ROOT))
        text = re.sub(r"(?s)\{%.*?%\}|\{\{.*?\}\}", "\n", path.read_text())
        for line in re.sub(r"<[^>]*>", "\n", text).splitlines():
            if " " in line.strip():
                yield f"{name}: {line.strip()}", line.strip()


@pytest.mark.parametrize(
    "texts",
    [
        of_plugins,
        of_roles,
        of_commands,
        of_pages,
        of_ends,
        of_keys,
        of_tasks,
        of_docstrings,
        of_code,
        of_templates,
    ],
)
def test_what_people_read_first_is_plain(texts: Any) -> None:
    found = list(texts())
    assert len(found) > 30
    old = {
        place: (match[0], text)
        for place, text in found
        if (match := OLD_WORDS.search(MARKUP.sub("", text)))
    }
    assert old == {}


def test_messages_of_tasks_are_plain() -> None:
    paths = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]
    found = [
        (path.name, text)
        for path in paths
        # A message goes on in the lines that are indented further.
        for _indent, text in re.findall(
            r"(?m)^( *)(?:fail_|success_)?msg: (.*(?:\n\1 +.*)*)", path.read_text()
        )
    ]
    assert len(found) > 40
    assert [one for one in found if OLD_WORDS.search(MARKUP.sub("", one[1]))] == []


def test_names_of_tasks_are_short() -> None:
    """A name is shown for each task of each host: it is a title and no sentence."""
    long = [(place, name) for place, name in of_tasks() if len(MARKUP.sub("x", name).split()) > 10]
    assert long == []


@pytest.mark.parametrize(
    "text",
    [
        "Read the fleet anew",
        "The one that somebody made",
        "What it is to be",
        "What mends it",
        "Who has it.",
        "A theme for who names none",
    ],
)
def test_old_words_are_noticed(text: str) -> None:
    assert OLD_WORDS.search(text)


@pytest.mark.parametrize(
    "source",
    [
        '"""Tell the workers."""\n',
        'def look():\n    """Return the hosts.\n\n    They wait for\n    whoever asks.\n    """\n',
        "x = 1\n# A folder that\n# nobody reads.\n",
        "x = 1  # as somebody set it\n",
        'raise Busy(\n    f"The {name} is to "\n    "be removed."\n)\n',
    ],
)
def test_old_words_in_code_are_noticed(source: str) -> None:
    assert any(OLD_WORDS.search(MARKUP.sub("", text)) for text in _texts(source))


def test_names_in_code_are_no_prose() -> None:
    source = 'TEXT = """\nWho\n"""\ntold = "told"\nsay(f"{told} by `tell`")  # noqa: S1\n'
    assert not any(OLD_WORDS.search(MARKUP.sub("", text)) for text in _texts(source))
