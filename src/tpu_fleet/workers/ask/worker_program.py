"""Programs for workers: the texts of modules, which the worker's Python puts together."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from ... import on_worker

PACKAGE = on_worker.__name__
# Modules come only from the sent texts, not from folders on the worker.
PROGRAM = """
import json, sys, types
def add(name, text):
    one = sys.modules[name] = types.ModuleType(name)
    one.__package__ = name.rpartition(".")[0]
    exec(compile(text, name, "exec"), one.__dict__)
    return one
for name, text in json.loads({modules!r}):
    last = add(name, text)
    if name == {limits!r}:
        last.begin()
sys.exit(last.main())
"""


def modules(names: Iterable[str] = on_worker.MODULES) -> list[tuple[str, str]]:
    """Return names and texts of the modules in the order of their imports."""
    parents = PACKAGE.split(".")
    empty = [(".".join(parents[: count + 1]), "") for count in range(len(parents))]
    folder = files(on_worker)
    return empty + [
        (f"{PACKAGE}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8")) for name in names
    ]


def program(*names: str) -> str:
    """Write a program of these modules; the last one is what runs, within the limits."""
    names = tuple(dict.fromkeys(("limits", *names)))
    return PROGRAM.format(modules=json.dumps(modules(names)), limits=f"{PACKAGE}.limits")


def _python(modules: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Return the words that run a program of these modules, with others before them."""
    return [*before, "/usr/bin/python3", "-I", "-c", program(*modules)]


def _as_root(sudo: bool) -> list[str]:
    return ["sudo", "-n"] if sudo else []


def _with_orders(
    words: Sequence[str], order_for: Callable[[Target], Mapping[str, Any]]
) -> Callable[[Target], str]:
    """Return the command for each worker, which ends with an order of its own."""
    command = f"exec {shlex.join(words)}"
    return lambda target: f"{command} {shlex.quote(json.dumps(order_for(target)))}"


def reader_command(order: Mapping[str, Any], sudo: bool = False) -> str:
    """Return the command for a worker."""
    words = _python(on_worker.MODULES, _as_root(sudo))
    return f"exec {shlex.join([*words, json.dumps(order)])}"


def verb_commands(verb: str, runs: Mapping[str, Sequence[str]], by: str) -> Callable[[Target], str]:
    """Return the command for each worker that stops, starts or retries these runs there as root.

    `by` is the person who wants that.
    """
    return _with_orders(
        _python(on_worker.VERBS, _as_root(True)),
        lambda target: {"do": verb, "runs": list(runs.get(target.name, ())), "by": by},
    )


def port_command(name: str, port: int, user: str) -> str:
    """Return the command that says who listens on the port of a service."""
    words = [*_python(on_worker.PORT), json.dumps([name, port, user])]
    return f"exec {shlex.join(words)}"


def folder_command(order: Mapping[str, Any], user: str) -> str:
    """Return the command that lists a checkpoint folder, or deletes in it, as the run's user."""
    words = _python(on_worker.FOLDER, ["sudo", "-n", "-u", user])
    return f"exec {shlex.join([*words, json.dumps(order)])}"


def profile_command(order: Mapping[str, Any], user: str) -> Callable[[Target], str]:
    """Return the command for each worker that records a profile as the run's user."""
    words = [*_python(on_worker.PROFILE), json.dumps(order)]

    def command_for(target: Target) -> str:
        before = [] if target.user == user else ["sudo", "-n", "-u", user]
        return f"exec {shlex.join([*before, *words])}"

    return command_for


def past_commands(
    places: Mapping[str, Mapping[str, Any]], sudo: bool = False
) -> Callable[[Target], str]:
    """Return the command for each worker that also returns what its runs have been through.

    `places` has for each worker how far its runs' pasts are known.
    """
    return _with_orders(
        _python(on_worker.PAST, _as_root(sudo)),
        lambda target: {"framed": True, "places": places.get(target.name, {})},
    )
