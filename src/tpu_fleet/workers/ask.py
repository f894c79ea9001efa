"""Look up the workers: in the fleet's ssh configuration, or by running its playbook."""

from __future__ import annotations

import configparser
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import (
    SshConfigError,
    parse_fleet,
)

from .ansible_config import inventory_sources
from .hosts import Known, in_order, place_of
from .names import read_names, remember

WRITE = "Write the ssh configuration of the fleet"
"""The task of playbooks/ssh_config.yml whose result is read."""


def default_file(environment: Mapping[str, str]) -> Path:
    """Return the default path of the ssh configuration."""
    state = environment.get("TPU_FLEET_STATE_DIR") or "~/.local/state/tpu-fleet"
    return Path(state).expanduser() / "ssh_config"


def _note_of(sources: Sequence[str]) -> Path:
    """Return the file that records where a fleet keeps its configuration."""
    import platformdirs

    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:24]
    return platformdirs.user_cache_path("tpu-fleet") / "ssh_config_of" / digest


def read_known(sources: Sequence[str], environment: Mapping[str, str]) -> Known | None:
    """Return the stored configuration of this fleet, if there is one."""
    places = [default_file(environment)]
    note = _note_of(sources)
    if note.is_file():
        places.insert(0, Path(note.read_text(encoding="utf-8")))
    for place in places:
        try:
            fleet = parse_fleet(place.read_text(encoding="utf-8"), str(place))
        except FileNotFoundError:
            continue
        # Another fleet of this computer may have written it, with other workers.
        if tuple(map(os.path.realpath, fleet.inventory)) == tuple(sources):
            return Known(place, fleet)
    return None


def ask() -> Known:
    """Look up the workers of the fleet in this folder, through its playbook."""
    from .play import Event, PlayError, play, reason_of

    found: list[Path] = []
    said: list[str] = []

    def on_event(event: Event) -> None:
        data = event.get("event_data", {})
        if event.get("event") == "runner_on_ok" and data.get("task") == WRITE:
            found.append(Path(data["res"]["dest"]))
        elif event.get("event") == "runner_on_failed":
            said.append(str(data.get("res", {}).get("msg", "")))
        elif event.get("stdout") and event.get("event") in ("error", "verbose"):
            said.append(str(event["stdout"]))

    code = play("tpu.fleet.ssh_config", on_event)
    if code or not found:
        why = reason_of("\n".join(said)) or "\n".join(said[-5:])
        raise PlayError(why or "tpu.fleet.ssh_config did not finish.")
    path = found[-1]
    fleet = parse_fleet(path.read_text(encoding="utf-8"), str(path))
    if path != default_file(os.environ):
        note = _note_of(inventory_sources(os.environ, Path.cwd()))
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(path), encoding="utf-8")
    return Known(path, fleet)


def known_fleet(refresh: bool) -> Known:
    """Return the fleet of this folder: as stored, or looked up again."""
    from_file = None
    try:
        if not refresh:
            sources = inventory_sources(os.environ, Path.cwd())
            from_file = read_known(sources, os.environ)
        known = from_file or ask_or_say_why()
    except (SshConfigError, OSError, configparser.Error) as error:
        raise click.ClickException(str(error)) from error
    note_names(known)
    return known


def ask_or_say_why() -> Known:
    """Look up the workers; print failures."""
    from .play import NoFleetError, PlayError

    try:
        return ask()
    except NoFleetError as error:
        raise click.ClickException(str(error)) from error
    except PlayError as error:
        raise click.ClickException(f"The fleet cannot be read: {error}") from error


def note_names(known: Known, runs: Sequence[str] = (), whole: bool = False) -> None:
    """Keep the names of a fleet for TAB; runs are added, or are all that there are."""
    sources = tuple(map(os.path.realpath, known.fleet.inventory))
    if not sources:
        return
    before = () if whole else read_names(sources).get("runs", ())
    names = known.names
    remember(
        sources,
        slices=in_order({place_of(name, known.fleet.groups)[0] for name in names}),
        workers=names,
        runs=sorted({*before, *runs}),
    )
