# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the roles on this host with ansible-playbook, and record the result."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

from . import packages
from .again import kept
from .place import Place, boot_id, read, write
from .record import Record, sealed
from .store import Store
from .wish import SHARED, Todo, Wish, digest, given_of, parts_of

# Seconds to wait for the first worker of a slice; the controller skips a slow one earlier.
_PATIENCE = 3600.0
# And without a call that follows this work: only a controller passes on what that worker found out.
UNHEARD = 60.0
# By default Ansible polls each millisecond whether a task has ended, which takes 4 % of a core.
_CONFIGURATION = "[defaults]\nlocalhost_warning = false\ninternal_poll_interval = 0.005\n"
# The number of earlier collections, logs and results that are kept.
KEPT = 3

Engine = Callable[[Path, Mapping[str, Any], Mapping[str, Any]], Path]
"""Provides ansible-playbook of the wanted version, using a collection; returns its path.

The last argument is how this host gets Python and packages, as python_env uses it."""


@dataclass(frozen=True)
class Variables:
    """The variables of a host: the fleet file's templates, and plain values."""

    templates: Mapping[str, Any]
    plain: Mapping[str, Any]


# The tag of the task by which a role checks what is declared for it.
CHECKS = "check_declared"
# The module of code_checkout checks its trees, and a role without a cluster has nothing to check.
CHECK_LATER = frozenset({"code_checkout", "ray_cluster"})
# What may mount a folder over one in which environments are.
_MOUNT = {"data_disk", "nfs_share", "bucket_mount"}
_AHEAD = {
    "name": "Start to build the environments while packages are installed",
    "ansible.builtin.import_role": {"name": "tpu.fleet.python_env", "tasks_from": "begin"},
}


class WorkError(Exception):
    """The roles could not be applied; the text has the reason and the remedy."""


class UnheardError(WorkError):
    """The work ends without a result, and the next call begins it again."""


class NoEngineError(WorkError):
    """This machine cannot have ansible-core, so a controller has to apply the roles."""


class Work:
    """One wish, on one host."""

    def __init__(self, place: Place, wish: Wish) -> None:
        self.place = place
        self.wish = wish
        self.store = Store(place.store)
        self.variables, uses = self._read_variables()
        values = {**self.variables.templates, **self.variables.plain}
        given = given_of(wish.roles, uses, values, wish.snapshots)
        parts = parts_of(wish.roles, uses, values, wish.snapshots)
        sealed_parts = {role: sealed(place, of_role) for role, of_role in parts.items()}
        self.record = Record(place, wish, sealed(place, given), sealed_parts)
        self.name = digest([asdict(wish), self.record.given])[:16]

    # What is asked for -------------------------------------------------------------------------

    def _read_variables(self) -> Tuple[Variables, Dict[str, List[str]]]:
        """Return the variables that were sent, and for each role the names that it uses."""
        given = self._sent(self.wish.variables)
        secret = self._sent(self.wish.secrets) if self.wish.secrets else {}
        self.tools = secret.get("tools", {})
        values = Variables(
            templates={**given["templates"], **secret.get("templates", {})},
            plain={**given["plain"], **secret.get("plain", {})},
        )
        return values, given["uses"]

    def _sent(self, name: str) -> Dict[str, Any]:
        data: Dict[str, Any] = json.loads(self.store.path(name).read_text(encoding="utf-8"))
        if data["host"] != self.wish.host:
            raise WorkError(f"the received variables are for {data['host']}, not {self.wish.host}")
        return data

    def todo(self) -> Todo:
        """Return which roles to apply now, and why."""
        return self.record.todo()

    def findings(self) -> Dict[str, str]:
        """Return for each role a hash of its notes, which must be equal on all of a slice."""
        state = (read(self.place.noted) or {}).get("applied", {})
        return {role: digest(state[role].get("notes")) for role in SHARED if role in state}

    # The work ----------------------------------------------------------------------------------

    def run(self, what: Todo, engine: Engine, follow: bool = False) -> Dict[str, Any]:
        """Apply the roles and record the result. The caller holds the lock.

        With `follow`, wait for the first worker of the slice before roles that share its findings.
        """
        started = time.time()
        noted = (read(self.place.noted) or {}).get("applied", {})
        is_first = self.wish.whole and "host_base" in what.roles and "host_base" not in noted
        if self.wish.whole:
            self.record.begin(what)
        if is_first:
            packages.begin(self.wish.packages)
        collection = self._unpack()
        self._place_snapshots()
        begun = time.monotonic()
        playbook = engine(collection, self.wish.environment, self.tools)
        self._note_engine(round(time.monotonic() - begun))
        alone = first_shared(what.roles) if follow else len(what.roles)
        ahead = is_first and can_build_ahead(what.roles)
        code, problem = self._play(playbook, collection, what.roles[:alone], {}, ahead)
        if code == 0 and what.roles[alone:]:
            code, problem = self._play(playbook, collection, what.roles[alone:], self._peers())
        counts = counts_of(self.place.events(self.name))
        status = "ok" if code == 0 else "failed"
        if self.wish.whole:
            self.record.end(what, code == 0)
        shared = self._found()
        if shared and not self.wish.check:
            write(self.place.shared, json.dumps({**self.shared(), **shared}))
        result = {
            "work": self.name,
            "status": status,
            "counts": counts,
            **({"problem": problem} if problem else {}),
            "roles": list(what.roles),
            "reasons": list(what.reasons),
            "findings": self.findings(),
            "shared": shared,
            "started": started,
            "ended": time.time(),
            "boot_id": boot_id(),
        }
        write(self.place.result(self.name), json.dumps(result))
        self._tidy()
        return result

    def beside(self, engine: Engine, more: Mapping[str, Any]) -> Tuple[int, str]:
        """Apply the roles with more variables, and record nothing of it. The caller holds the lock.

        Return the exit code, and the end of the log if Ansible broke off.
        """
        self.variables = Variables(self.variables.templates, {**self.variables.plain, **more})
        with contextlib.suppress(FileNotFoundError):
            self.place.events(self.name).unlink()
        collection = self._unpack()
        playbook = engine(collection, self.wish.environment, self.tools)
        told = self._play(playbook, collection, self.wish.roles, {})
        self._tidy()
        return told

    def _note_engine(self, seconds: int) -> None:
        """Record how long the installation of ansible-core took, if it was necessary."""
        if seconds:
            self._say(event="engine", seconds=seconds)

    def _say(self, **event: Any) -> None:
        path = self.place.events(self.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as events:
            events.write(json.dumps(event) + "\n")

    def shared(self) -> Dict[str, Any]:
        """Return what this host has found out for its slice."""
        return read(self.place.shared) or {}

    def _found(self) -> Dict[str, Any]:
        """Return what this work has found out for the slice; in check mode nothing keeps it."""
        return {
            event["name"]: event["value"]
            for event in events_of(self.place.events(self.name))
            if event.get("event") == "shared"
        }

    def _place_snapshots(self) -> None:
        for role, files in self.wish.snapshots.items():
            folder = self.place.snapshots(role)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700, parents=True)
            for name, content in files.items():
                shutil.copyfile(str(self.store.path(content)), str(folder / Path(name).name))

    def _unpack(self) -> Path:
        """Return the unpacked collection, which is there complete or not at all."""
        target = self.place.programs / self.wish.code[:16]
        if not target.is_dir():
            part = target.with_name(f".{target.name}.new")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o755, parents=True)
            with tarfile.open(self.store.path(self.wish.code)) as archive:
                extract(archive, part)
            os.sync()
            part.rename(target)
        return target

    def _peers(self) -> Dict[str, Any]:
        """Wait for what other workers of the slice found out, and return it."""
        path, deadline = self.place.peers(self.name), time.monotonic() + _PATIENCE
        heard, heard_at = None, time.monotonic()
        if not path.exists():
            self._say(event="peers")
        while not path.exists():
            now, before, heard = time.monotonic(), heard, stamp_of(self.place.followed(self.name))
            heard_at = now if heard != before else heard_at
            if now - heard_at > UNHEARD:
                raise UnheardError("no controller follows this work")
            if now > deadline:
                raise WorkError(
                    "the controller did not pass on what the first worker of the slice found out. "
                    "Apply again; finished work is kept"
                )
            time.sleep(0.2)
        found: Dict[str, Any] = read(path) or {}
        return found

    def _play(
        self,
        playbook: Path,
        collection: Path,
        roles: Sequence[str],
        peers: Mapping[str, Any],
        ahead: bool = False,
    ) -> Tuple[int, str]:
        """Run ansible-playbook; return its exit code, and the end of its log if it broke off."""
        if not roles:
            return 0, ""
        folder = self.place.state / "work"
        shutil.rmtree(folder, ignore_errors=True)
        write(folder / "hosts.yml", inventory(self.wish.host, self.variables, peers))
        play = {
            "name": "Make this host as declared",
            "hosts": "tpu",
            "gather_facts": False,
            "become": False,
            "pre_tasks": [_check_of(roles), *([_AHEAD] if ahead else [])],
            "tasks": [_apply_of(role) for role in roles],
        }
        write(folder / "play.json", json.dumps([play]))
        # A configuration file here, so that Ansible reads no other.
        write(folder / "ansible.cfg", _CONFIGURATION)
        events = self.place.events(self.name)
        events.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        recaps = _recaps(events)
        log = self.place.logs / f"{time.strftime('%Y%m%dT%H%M%S')}-{self.name}.log"
        log.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with log.open("ab") as out:
            # No run_command, because this is no module, and its output is long and meant for users.
            # pylint: disable-next=ansible-bad-function
            code = subprocess.run(
                [str(playbook), "-i", "hosts.yml", *self._options(), "play.json"],
                cwd=folder,
                env=_environment(collection, folder, events),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        # The folder had secrets.
        shutil.rmtree(folder, ignore_errors=True)
        return code, _end_of(log) if _recaps(events) == recaps else ""

    def _options(self) -> List[str]:
        options = ["--skip-tags", ",".join([CHECKS, *self.wish.skip_tags])]
        if self.wish.check:
            options.append("--check")
        if self.wish.diff:
            options.append("--diff")
        if self.wish.tags:
            options += ["--tags", ",".join(self.wish.tags)]
        return options

    def _tidy(self) -> None:
        """Remove all but the newest files of each kind."""
        asked = [name for wish in kept(self.place) for name in wish.files]
        self.store.keep([*self.wish.files, *asked])
        for folder, pattern in (
            (self.place.logs, "*.log"),
            (self.place.state / "results", "*.json"),
            (self.place.state / "results", "*.events"),
            (self.place.state / "results", "*.peers"),
            (self.place.state / "results", "*.followed"),
        ):
            for path in sorted(folder.glob(pattern), key=_age)[:-KEPT]:
                path.unlink()
        for path in sorted(self.place.programs.glob("[0-9a-f]" * 16), key=_age)[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)


def _check_of(roles: Sequence[str]) -> Dict[str, Any]:
    """Return one task that checks what is declared for all roles: each task is a process."""
    return {
        "name": "Check what is declared",
        "ansible.builtin.assert": {
            "that": "problems | length == 0",
            "fail_msg": "{{ problems | join('\n') }}",
            "quiet": True,
        },
        "vars": {
            "checked": [role for role in roles if role not in CHECK_LATER],
            "problems": "{{ checked | map('tpu.fleet.role_problems') | flatten }}",
        },
        "tags": "always",
    }


def _apply_of(role: str) -> Dict[str, Any]:
    """Return the task that applies a role, whose filter role_settings checks types."""
    return {
        "name": f"Apply the role {role}",
        "ansible.builtin.import_role": {"name": f"tpu.fleet.{role}", "rolespec_validate": False},
    }


def _age(path: Path) -> float:
    return path.stat().st_mtime


def stamp_of(path: Path) -> float | None:
    """Return when a file was written; None if there is none."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive whose hash was checked."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)  # noqa: S202 - older Pythons have no filter; the hash was right


def _environment(collection: Path, folder: Path, events: Path) -> Dict[str, str]:
    """Return Ansible's environment, which has nothing from the user who is logged in."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(collection),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": "/root/.ansible",
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_CALLBACKS_ENABLED": "tpu.fleet.events",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_FORKS": "1",
        # Otherwise a broken inventory would count as a success without hosts.
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "true",
        "TPU_FLEET_EVENTS": str(events),
        "TPU_FLEET_SHARED": ",".join(SHARED.values()),
    }


def inventory(host: str, variables: Variables, peers: Mapping[str, Any]) -> str:
    """Return an inventory of one host, in YAML, because its !unsafe marks what is no template.

    Only dictionaries are marked, because Ansible would turn a single text that looks like a
    number, a boolean or null into one. What other workers of the slice found out is in the group
    fleet_peers, to which nothing is applied.
    """
    own = {
        **variables.templates,
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    named = [_yaml(part) for part in (host, own, variables.plain, peers)]
    hosts = '{"hosts": {%s: %s}, "vars": !unsafe %s}, "fleet_peers": {"hosts": !unsafe %s}'
    return '{"tpu": %s}\n' % (hosts % tuple(named))


def _yaml(value: Any) -> str:
    """Return JSON that is valid YAML, too: YAML has no surrogate pairs, which JSON uses."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found.group()):08x}", text)


def events_of(path: Path) -> Iterator[Dict[str, Any]]:
    """Yield the events that were recorded so far."""
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def counts_of(events: Path) -> Dict[str, int]:
    """Return the sums of the recaps; empty if Ansible broke off."""
    counts: Dict[str, int] = {}
    for event in events_of(events):
        if event.get("event") == "recap":
            for name, number in event["counts"].items():
                counts[name] = counts.get(name, 0) + number
    return counts


def _recaps(events: Path) -> int:
    return sum(event.get("event") == "recap" for event in events_of(events))


def can_build_ahead(roles: Sequence[str]) -> bool:
    """Return whether environments can be built before the roles that come first."""
    return "python_env" in roles and not _MOUNT & set(roles)


def first_shared(roles: Sequence[str]) -> int:
    """Return the index of the first role whose findings a slice shares, or the length."""
    return next((at for at, role in enumerate(roles) if role in SHARED), len(roles))


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([f"Ansible broke off. The end of {log} on the host:", *lines[-8:]])
