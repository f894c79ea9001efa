# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the roles on this host with ansible-playbook, and write down how it went."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import shutil
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from . import stamp
from .place import Place, boot_id, read, write
from .store import Store
from .wish import Known, Todo, Wish, digest, todo

# How many earlier collections, logs and results stay.
KEPT = 3

Engine = Callable[[Path, Mapping[str, Any]], Path]
"""Makes ansible-playbook of the wanted version be there, with a collection's help; returns it."""


@dataclass(frozen=True)
class Variables:
    """What a host is given: what the owner of the fleet wrote, and what only is what it is."""

    templates: Mapping[str, Any]
    plain: Mapping[str, Any]


class WorkError(Exception):
    """Nothing could be applied, with the reason and the remedy in words."""


class Work:
    """One wish, on one host."""

    def __init__(self, place: Place, wish: Wish) -> None:
        self.place = place
        self.wish = wish
        self.store = Store(place.store)
        self.variables, self.uses = self._read_variables()
        self.name = digest([wish.__dict__, self.hashes])[:16]

    # What is asked for

    def _read_variables(self) -> Tuple[Variables, Dict[str, List[str]]]:
        """Return what was sent for this host, and which role has to do with what of it."""
        data = json.loads(self.store.path(self.wish.variables).read_text(encoding="utf-8"))
        if self.wish.host not in data["hosts"]:
            raise WorkError(f"the variables that were sent are not for {self.wish.host}")
        secret: Dict[str, Any] = {}
        if self.wish.secrets:
            text = self.store.path(self.wish.secrets).read_text(encoding="utf-8")
            secret = json.loads(text)["hosts"].get(self.wish.host, {})
        own = data["hosts"][self.wish.host]
        values = Variables(
            templates={**data["common"], **own.get("templates", {})},
            # Nothing in them is ever a template, whoever wrote it.
            plain={**own.get("plain", {}), **secret},
        )
        return values, data["uses"]

    @property
    def hashes(self) -> Dict[str, str]:
        """Return what each role is given, as hashes that say nothing elsewhere."""
        key = self.place.key()
        everything = {**self.variables.templates, **self.variables.plain}
        return {
            role: hmac.new(
                key,
                digest({name: everything[name] for name in names if name in everything}).encode(),
                "sha256",
            ).hexdigest()
            for role, names in self.uses.items()
        }

    def todo(self) -> Todo:
        """Look what there is to do."""
        before = read(self.place.stamp) or {}
        drift = stamp.differences(before, stamp.look(self.place.watch, before))
        if not before:
            drift = ["nobody knows what the host looked like"]
        known = Known.read(read(self.place.known))
        return todo(self.wish, known, self.hashes, boot_id(), drift)

    # Doing it

    def run(self, what: Todo, engine: Engine) -> Dict[str, Any]:
        """Do it, and write down how it ended. Whoever calls holds the lock."""
        started = time.time()
        if self.wish.whole:
            # Should we be killed, the next time knows that nothing is sure.
            self._remember("interrupted")
        collection = self._unpack()
        playbook = engine(collection, self.wish.environment)
        code, counts, problem = self._play(playbook, collection, what.roles)
        status = "ok" if code == 0 else "failed"
        if self.wish.whole:
            self._remember(status)
            if status == "ok":
                write(self.place.stamp, json.dumps(stamp.look(self.place.watch)))
        result = {
            "work": self.name,
            "status": status,
            "counts": counts,
            **({"problem": problem} if problem else {}),
            "roles": list(what.roles),
            "reasons": list(what.reasons),
            "started": started,
            "ended": time.time(),
            "boot_id": boot_id(),
        }
        write(self.place.result(self.name), json.dumps(result))
        self._tidy()
        return result

    def _remember(self, status: str) -> None:
        known = Known(
            status=status,
            boot_id=boot_id(),
            code=self.wish.code,
            environment=digest(self.wish.environment),
            roles=self.hashes,
        )
        write(self.place.known, json.dumps(known.record()))

    def _unpack(self) -> Path:
        """Have the collection as files; they are there whole or not at all."""
        target = self.place.programs / self.wish.code[:16]
        if not target.is_dir():
            part = target.with_name(f".{target.name}.new")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o755, parents=True)
            with tarfile.open(self.store.path(self.wish.code)) as archive:
                _extract(archive, part)
            os.sync()
            part.rename(target)
        return target

    def _play(
        self, playbook: Path, collection: Path, roles: Sequence[str]
    ) -> Tuple[int, Dict[str, int], str]:
        """Run ansible-playbook; return its exit code, the recap, and why there is none."""
        folder = self.place.state / "work"
        shutil.rmtree(folder, ignore_errors=True)
        write(folder / "hosts.yml", inventory(self.wish.host, self.variables))
        named = roles or list(self.uses)
        play = {
            "name": "Make this host as declared",
            "hosts": "tpu",
            "gather_facts": False,
            "become": False,
            "roles": [{"role": f"tpu.fleet.{role}"} for role in named],
        }
        write(folder / "play.json", json.dumps([play]))
        # Of its own, so that no other one counts.
        write(folder / "ansible.cfg", "[defaults]\nlocalhost_warning = false\n")
        events = self.place.events(self.name)
        events.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self.place.logs / f"{time.strftime('%Y%m%dT%H%M%S')}-{self.name}.log"
        log.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with log.open("wb") as out:
            # It is no module, and its output is long and of people.
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
        # Secrets were in it.
        shutil.rmtree(folder, ignore_errors=True)
        counts = counts_of(events)
        problem = "" if counts else _end_of(log)
        return code, counts, problem

    def _options(self) -> List[str]:
        options = []
        if self.wish.check:
            options.append("--check")
        if self.wish.diff:
            options.append("--diff")
        if self.wish.tags:
            options += ["--tags", ",".join(self.wish.tags)]
        if self.wish.skip_tags:
            options += ["--skip-tags", ",".join(self.wish.skip_tags)]
        return options

    def _tidy(self) -> None:
        """Leave the last few of everything."""
        self.store.keep(self.wish.files)
        for folder, pattern in (
            (self.place.logs, "*.log"),
            (self.place.state / "results", "*.json"),
            (self.place.state / "results", "*.events"),
        ):
            for path in sorted(folder.glob(pattern), key=_age)[:-KEPT]:
                path.unlink()
        for path in sorted(self.place.programs.glob("[0-9a-f]" * 16), key=_age)[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack what the controller packed; its hash was right."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)  # noqa: S202 - older Pythons know no filter; the hash was right


def _environment(collection: Path, folder: Path, events: Path) -> Dict[str, str]:
    """Say what Ansible is to see: nothing of whoever is logged in."""
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
        "ANSIBLE_NOCOLOR": "true",
        "TPU_FLEET_EVENTS": str(events),
    }


def inventory(host: str, variables: Variables) -> str:
    """Write an inventory of one host, in YAML, which knows how to mark what is no template."""
    own = [f"{json.dumps(name)}: {json.dumps(v)}" for name, v in variables.templates.items()]
    own += [f"{json.dumps(name)}: {unsafe(value)}" for name, value in variables.plain.items()]
    own.append('"ansible_connection": "local"')
    return '{"tpu": {"hosts": {%s: {%s}}}}\n' % (json.dumps(host), ", ".join(own))


def unsafe(value: Any) -> str:
    """Write a value in YAML, so that Ansible takes no part of it for a template."""
    if isinstance(value, str):
        return f"!unsafe {json.dumps(value)}"
    if isinstance(value, list):
        return "[%s]" % ", ".join(unsafe(item) for item in value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join(f"{json.dumps(key)}: {unsafe(v)}" for key, v in value.items())
    return json.dumps(value)


def counts_of(events: Path) -> Dict[str, int]:
    """Read the numbers of the recap, which is the last event; none where Ansible broke off."""
    counts: Dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in events.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("event") == "recap":
                    counts = event["counts"]
    return counts


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([f"Ansible broke off; {log} on the host ends so:", *lines[-8:]])
