"""The options that several commands have in common, each with one meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.folders import is_folder

from ..workers.inventory.names import NameOf

Function = TypeVar("Function", bound=Callable[..., Any])
Command = Callable[..., None]


def gathered(
    name: str, kind: type[Any], *options: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """Add options to a command, which gets them as one argument of this name: a dataclass."""

    def add(function: Command) -> Command:
        @wraps(function)
        def command(*args: Any, **more: Any) -> None:
            given = {one: more.pop(one) for one in kind.__dataclass_fields__ if one in more}
            function(*args, **{name: kind(**given)}, **more)

        found: Command = command
        for option in reversed(options):
            found = option(found)
        return found

    return add


def unwritable(folder: Path) -> str:
    """Return why no file can be written into a folder, which need not exist; empty if one can.

    It is tried: what a file system like /proc or a full disk takes, no mode of a file shows.
    """
    places = (folder.absolute(), *folder.absolute().parents)
    there = next(place for place in places if os.path.lexists(place))
    try:
        with TemporaryDirectory(prefix=".tpu-fleet-try.", dir=there):
            return ""
    except OSError as error:
        return f"nothing can be written in {there} ({error.strerror})"


class NewFolder(click.Path):
    """A folder into which a command writes, and which it makes; tried before anything is done."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises BadParameter."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        why_not = unwritable(path.expanduser())
        if why_not:
            self.fail(f"{str(path)!r}: {why_not}. Name another folder.", param, ctx)
        return path


class NewFile(click.Path):
    """A file that a command writes at its end, whose folder has to exist when it begins."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raises BadParameter."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not is_folder(path.parent):
            says = f"{str(path)!r}: there is no folder {path.parent}. Make it, or name another."
            self.fail(says, param, ctx)
        why_not = unwritable(path.parent)
        if why_not:
            self.fail(f"{str(path)!r}: {why_not}. Name another file.", param, ctx)
        return path


def option_slice(known: str = "slices") -> Callable[[Function], Function]:
    """Return --slice, which may be given several times; `known` are the names that complete."""
    return click.option(
        "--slice",
        "slices",
        type=NameOf(known),
        multiple=True,
        metavar="NAME",
        help="Only this slice.",
    )


def option_worker() -> Callable[[Function], Function]:
    """Return --worker, the index of a worker in its slice."""
    kind = click.IntRange(0)
    return click.option("--worker", type=kind, metavar="N", help="Only worker N of a slice.")


def option_limit() -> Callable[[Function], Function]:
    """Return --limit, a pattern of Ansible's."""
    return click.option(
        "--limit",
        type=NameOf("workers"),
        metavar="PATTERN",
        help="Only these workers or groups, as for ansible-playbook.",
    )


def option_folder(meaning: str) -> Callable[[Function], Function]:
    """Return -o, the folder into which something is written; the command gets it as `to`."""
    return click.option("-o", "--output", "to", type=NewFolder(), metavar="DIR", help=meaning)


def option_timeout(
    name: str = "timeout", limit: str = "for a worker."
) -> Callable[[Function], Function]:
    """Return --timeout, in seconds; `limit` says of what, and may have the default."""
    kind = click.FloatRange(min=0.1)
    return click.option("--timeout", name, type=kind, metavar="SECONDS", help=f"Time limit {limit}")


def option_interval(
    default: float, kind: click.ParamType[Any], meaning: str, name: str = "--interval"
) -> Callable[[Function], Function]:
    """Return an option for the seconds between two looks."""
    how: dict[str, Any] = {"default": default, "show_default": True, "metavar": "SECONDS"}
    return click.option(name, type=kind, help=meaning, **how)


def option_verbose() -> Callable[[Function], Function]:
    """Return -v, which is counted."""
    return click.option(
        "-v",
        "--verbose",
        "verbose",
        count=True,
        help="Show everything that Ansible prints; -vv and more is passed on.",
    )
