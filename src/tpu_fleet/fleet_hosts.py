"""Which workers there are and how they are reached: as written down, or asked anew."""

from __future__ import annotations

import configparser
import fnmatch
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import (
    GROUP_UNAVAILABLE,
    group_name,
    natural_key,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import (
    Fleet,
    SshConfigError,
    parse_fleet,
)

SAY_WHERE = "Say where it is"
"""The task of playbooks/ssh_config.yml whose result is taken."""


@dataclass(frozen=True)
class Known:
    """A fleet, and the file that it was read from."""

    path: Path
    fleet: Fleet

    @property
    def names(self) -> list[str]:
        """All workers, also those that cannot be used, in natural order."""
        unusable = self.fleet.groups.get(GROUP_UNAVAILABLE, ())
        return in_order({*self.fleet.targets, *unusable})


def in_order(names: Iterable[str]) -> list[str]:
    """Sort as people count."""
    return sorted(names, key=natural_key)


# Which file


def inventory_sources(environment: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Say from where Ansible would read its inventory in a folder."""
    told = environment.get("ANSIBLE_INVENTORY")
    base = folder
    if not told:
        config = _config_file(environment, folder)
        parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
        if config:
            parser.read(config)
            base = config.parent
        told = parser.get("defaults", "inventory", fallback="/etc/ansible/hosts")
    return tuple(
        os.path.realpath(base / Path(os.path.expandvars(source.strip())).expanduser())
        for source in told.split(",")
        if source.strip()
    )


def without_fleet(environment: Mapping[str, str], folder: Path) -> str:
    """Say what is missing where Ansible would find no inventory; empty when there is one."""
    sources = inventory_sources(environment, folder)
    if any(map(os.path.exists, sources)):
        return ""
    return (
        f"There is no fleet here: {', '.join(sources)} does not exist. Go to the folder of your"
        " fleet, or name its inventory in ANSIBLE_INVENTORY."
    )


def _config_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    told = environment.get("ANSIBLE_CONFIG", "")
    first = [Path(told).expanduser()] if told else []
    if told and Path(told).is_dir():
        first = [Path(told) / "ansible.cfg"]
    places = [*first, folder / "ansible.cfg", Path("~/.ansible.cfg").expanduser()]
    return next(
        (place for place in (*places, Path("/etc/ansible/ansible.cfg")) if place.is_file()), None
    )


def default_file(environment: Mapping[str, str]) -> Path:
    """Say where the ssh configuration is, if the fleet does not keep its state elsewhere."""
    state = environment.get("TPU_FLEET_STATE_DIR") or "~/.local/state/tpu-fleet"
    return Path(state).expanduser() / "ssh_config"


def _note_of(sources: Sequence[str]) -> Path:
    """Return the file in which we note where a fleet keeps its configuration."""
    import platformdirs

    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:24]
    return platformdirs.user_cache_path("tpu-fleet") / "ssh_config_of" / digest


def read_known(sources: Sequence[str], environment: Mapping[str, str]) -> Known | None:
    """Return what was written down of this very fleet, if anything was."""
    places = [default_file(environment)]
    note = _note_of(sources)
    if note.is_file():
        places.insert(0, Path(note.read_text(encoding="utf-8")))
    for place in places:
        try:
            fleet = parse_fleet(place.read_text(encoding="utf-8"), str(place))
        except FileNotFoundError:
            continue
        # Another fleet of this computer may have written it: its workers are none of ours.
        if tuple(map(os.path.realpath, fleet.inventory)) == tuple(sources):
            return Known(place, fleet)
    return None


def ask() -> Known:
    """Ask the fleet of this folder, through its playbook."""
    # Not above: Ansible's runner costs more time than a command on 64 workers.
    from .play import Event, PlayError, play, reason_of

    found: list[Path] = []
    said: list[str] = []

    def on_event(event: Event) -> None:
        data = event.get("event_data", {})
        if event.get("event") == "runner_on_ok" and data.get("task") == SAY_WHERE:
            found.append(Path(data["res"]["ansible_facts"]["fleet_ssh_config_file"]))
        elif event.get("event") == "runner_on_failed":
            said.append(str(data.get("res", {}).get("msg", "")))
        elif event.get("stdout") and event.get("event") in ("error", "verbose"):
            said.append(str(event["stdout"]))

    code = play("tpu.fleet.ssh_config", on_event)
    if code or not found:
        why = reason_of("\n".join(said)) or "\n".join(said[-5:])
        raise PlayError(why or "tpu.fleet.ssh_config did not come to its end.")
    path = found[-1]
    fleet = parse_fleet(path.read_text(encoding="utf-8"), str(path))
    if path != default_file(os.environ):
        note = _note_of(inventory_sources(os.environ, Path.cwd()))
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(path), encoding="utf-8")
    return Known(path, fleet)


def known_fleet(refresh: bool) -> Known:
    """Return the fleet of this folder: as it was written down, or asked anew."""
    from_file = None
    try:
        if not refresh:
            sources = inventory_sources(os.environ, Path.cwd())
            from_file = read_known(sources, os.environ)
        return from_file or ask_or_say_why()
    except (SshConfigError, OSError, configparser.Error) as error:
        raise click.ClickException(str(error)) from error


def ask_or_say_why() -> Known:
    """Ask the fleet; what goes wrong is told to the person."""
    from .play import NoFleetError, PlayError

    try:
        return ask()
    except NoFleetError as error:
        raise click.ClickException(str(error)) from error
    except PlayError as error:
        raise click.ClickException(f"The fleet cannot be asked: {error}") from error


# Which of them


def select(known: Known, slices: Sequence[str], pattern: str | None) -> list[str]:
    """Return the workers that are meant, in natural order; say what there is when none is."""
    names = set(known.names)
    groups = known.fleet.groups
    if slices:
        wanted: set[str] = set()
        for name in (part for words in slices for part in words.split(",") if part):
            members = groups.get(group_name("tpu_slice", name))
            if members is None:
                there = in_order(
                    group.removeprefix("tpu_slice_")
                    for group in groups
                    if group.startswith("tpu_slice_")
                )
                raise click.ClickException(
                    f"There is no slice {name}. There is {', '.join(there) or 'nothing at all'}."
                )
            wanted.update(members)
        names &= wanted
    if pattern:
        names &= _matching(pattern, set(known.names), groups)
    if not names:
        raise click.ClickException(
            "No worker is meant by that." if slices or pattern else "The fleet has no workers."
        )
    return in_order(names)


def place_of(host: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Say of which slice a worker is, and which of its workers."""
    match = re.fullmatch(r"(.+)-w(\d+)", host)
    alone = host in groups.get(group_name("tpu_slice", host), ())
    if match and not alone and host in groups.get(group_name("tpu_slice", match[1]), ()):
        return match[1], int(match[2])
    return host, 0


def _matching(pattern: str, names: set[str], groups: Mapping[str, Sequence[str]]) -> set[str]:
    """Understand a pattern as Ansible does: a,b unites, &a keeps, !a takes away."""
    united: set[str] = set()
    kept, gone = set(names), set()
    only_changes = True
    # No comma and no colon within brackets parts anything.
    for term in re.split(r"[,:](?![^\[]*\])", pattern):
        if not term:
            continue
        sign = term[0] if term[0] in "!&" else ""
        name = term[len(sign) :]
        found = _of_term(name, names, groups)
        group = group_name("tpu_slice", name)
        # Also after "!": whoever takes a slice away must not have its workers in after all.
        if not found and group in groups:
            raise click.ClickException(f"{name} is a slice; its workers are the group {group}.")
        if not found and sign != "!":
            raise click.ClickException(f"No worker and no group is called {name}.")
        if sign == "!":
            gone |= found
        elif sign == "&":
            kept &= found
        else:
            united |= found
            only_changes = False
    return ((names if only_changes else united) & kept) - gone


def _of_term(term: str, names: set[str], groups: Mapping[str, Sequence[str]]) -> set[str]:
    if term in ("all", "*"):
        return set(names)
    found = {name for name in names if name == term}
    if not found:
        found = set(unfold(term)) & names
    if not found:
        found = set(fnmatch.filter(names, term))
    for group in [term] if term in groups else fnmatch.filter(groups, term):
        found |= set(groups[group]) & names
    return found


def unfold(text: str) -> list[str]:
    """Return the names behind pair-w[0-2,5]."""
    match = re.fullmatch(r"(.*)\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\](.*)", text)
    if not match:
        return [text]
    before, numbers, after = match.groups()
    names = []
    for part in numbers.split(","):
        first, _dash, last = part.partition("-")
        # No fleet has more workers; who types more means something else.
        for number in range(int(first), min(int(last or first), int(first) + 100_000) + 1):
            names.append(f"{before}{number}{after}")
    return names


def fold(names: Iterable[str]) -> str:
    """Write many names shortly: pair-w[0-2,5],solo. --limit understands it."""
    numbered: dict[tuple[str, str], list[int]] = {}
    plain = []
    for name in in_order(names):
        # A number with a zero before it would not come back as it was.
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)(\D*)", name)
        if match and not match[1].endswith(tuple("0123456789")):
            numbered.setdefault((match[1], match[3]), []).append(int(match[2]))
        else:
            plain.append(name)
    parts = list(plain)
    for (before, after), numbers in numbered.items():
        if len(numbers) == 1:
            parts.append(f"{before}{numbers[0]}{after}")
        else:
            parts.append(f"{before}[{_ranges(numbers)}]{after}")
    return ",".join(in_order(parts))


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
