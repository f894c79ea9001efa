# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build and remove the environments of a host as declared. Private to tpu.fleet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._core import threads
from ..._host.as_user import account_of
from ..._host.chips import generation_of, pci_devices
from ..._host.state import VENVS_OF_ROLES, as_json, read_text, write_atomically
from ..._host.work import Failed
from . import build as venv_build
from .build import (
    Builder,
    Site,
    Tools,
    acting,
    builds_of,
    discard,
    is_whole,
    note_build,
    note_slow,
    packages_in,
    prune,
    site_of,
    switch,
    target_of,
    why_slow,
)
from .look import Reader, Venv, keep_resolution, listing, resolution_of
from .plan import (
    asked_lines,
    build_path,
    changes,
    digest,
    exchanged,
    freeze_hash,
    has_hashes,
    is_away,
    lock_lines,
    names,
    same_versions,
    strange_lines,
    unknown_package,
    with_commits,
)

UV_DIR = "/opt/tpu-fleet/uv"


class Job:
    """All environments of one apply of the module."""

    def __init__(self, params: Mapping[str, Any], check: bool, warn: Callable[[str], None]) -> None:
        venv_build.too_slow.clear()
        for owner, why in (params.get("stopped") or {}).items():
            account = account_of(owner)
            if account is not None:
                note_slow(account, str(why))
        self.params: dict[str, Any] = {"uv_dir": UV_DIR, **params}
        self.check = check
        self.warn = warn
        self.tools = Tools(self.params, warn)
        # Versions and hashes come from the index itself, never from another worker's cache.
        self.index = Tools({**self.params, "shared_cache_url": ""}, warn)
        accelerator = self.params["accelerator"]
        if accelerator == "auto":
            accelerator = "tpu" if generation_of(pci_devices()) else "cpu"
        self.accelerator = accelerator
        reader = Reader(self.params, accelerator, check)
        self.venvs = reader.all_wanted()
        # Problems of the declarations.
        self.wrong = reader.wrong
        # The reasons why environments were not built; `delayed`: because their owners stopped it.
        self.failed: list[str] = []
        self.delayed: list[str] = []

    def builder(self, venv: Venv) -> Builder:
        """Return the builder of an environment."""
        return Builder(self.tools, venv.spec, self.accelerator, venv.files, self.index)

    # The two phases

    def prepare(self) -> dict[str, Any]:
        """Install the tools, and resolve each environment to a lock."""
        if self.check:
            missing = not Path(self.tools.uv).exists()
            return {"changed": missing, "locks": self.locks(), "unresolved": {}, "stopped": {}}
        pending = [venv for venv in self.venvs if not venv.known_lock()]
        if pending or not Path(self.tools.uv).exists():
            with self.tools.at_work(), self.index.at_work():
                try:
                    self.tools.have_uv()
                except Failed as error:
                    raise Failed(f"Cannot install uv. {error}") from error
                for_python = sorted({venv.spec.python for venv in pending})
                for python in for_python:
                    # One after the other, because several environments may need the same Python.
                    try:
                        self.tools.interpreter(python)
                    except Failed as error:
                        for venv in pending:
                            if venv.spec.python == python:
                                venv.error = str(error)
                self.each([venv for venv in pending if not venv.error], self.resolve)
        failed = {venv.wish: venv.error for venv in self.venvs if venv.error}
        owners = {venv.spec.owner: why_slow(venv.spec.owner) for venv in self.venvs}
        stopped = {owner: why for owner, why in owners.items() if why}
        said = {"locks": self.locks(), "unresolved": failed, "stopped": stopped}
        return {"changed": bool(self.tools.did), **said}

    def locks(self) -> dict[str, str]:
        """Return the locks by wish, for other hosts with the same wish."""
        found = {venv.wish: venv.lock or venv.known_lock() for venv in self.venvs}
        return {wanted: lock for wanted, lock in found.items() if lock}

    def resolve(self, venv: Venv) -> None:
        """Resolve one environment."""
        venv.lock = self.builder(venv).resolve(venv.placed().owner)

    def build(self) -> dict[str, Any]:
        """Build all environments that are not as declared, and remove others."""
        wanted: list[Venv] = []
        for venv in self.venvs:
            venv.lock = str(self.params["resolved"].get(venv.wish, "")) or venv.known_lock()
            venv.theirs = self.given_lock(venv)
            try:
                settled = not venv.theirs and self.settled(venv)
            except Failed as error:
                venv.error, settled = str(error), False
            if not settled:
                wanted.append(venv)
        gone = self.undeclared()
        if self.check:
            for venv in wanted:
                venv.changed = not venv.waits
            return self.told(wanted, bool(gone) or any(venv.changed for venv in wanted), gone)
        if wanted:
            with self.tools.at_work(), self.index.at_work():
                try:
                    self.tools.have_uv()
                except Failed as error:
                    raise Failed(f"Cannot install uv. {error}") from error
                for venv in wanted:
                    if not venv.lock:
                        venv.error = venv.error or self.params["unresolved"].get(venv.wish, "")
                self.each([venv for venv in wanted if not venv.error], self.build_one)
        removed = [folder for record in gone for folder in self.remove(record)]
        self.forget_resolutions()
        for venv in self.venvs:
            if not (venv.error or venv.waits):
                try:
                    venv.removed = prune(
                        venv.placed(), venv.stamp.get("build"), self.params["keep_builds"]
                    )
                except Failed as error:
                    self.warn(f"Old builds of {venv.spec.name!r} stay: {error}")
                removed += venv.removed
        for venv in (venv for venv in wanted if venv.error):
            # A user that stops the work on their own environment does not delay other users' work.
            (self.delayed if why_slow(venv.spec.owner) else self.failed).append(
                f"Cannot build the environment {venv.spec.name!r}."
                f"{' The old one is still in use.' if venv.path.is_symlink() else ''} "
                f"{unknown_package(venv.spec, venv.error)}{venv.error}"
            )
        return self.told(wanted, bool(removed) or any(venv.changed for venv in wanted), removed)

    def given_lock(self, venv: Venv) -> str:
        """Return another worker's lock for this wish, if it may differ from this worker's own."""
        lock = str(self.params["locks"].get(venv.wish, ""))
        if venv.lock and same_versions(lock, venv.lock):
            return ""
        strange = strange_lines(lock, venv.spec)
        if strange:
            self.warn(
                f"The lock of another worker for {venv.spec.name!r} is not used, because it "
                f"holds what was not requested: {', '.join(map(repr, strange[:5]))}."
            )
            return ""
        return lock

    def agreed(self, venv: Venv, builder: Builder) -> str:
        """Return a lock of one's own that keeps to the versions of another worker.

        They are constraints for this worker's own resolution: they can neither add a package, nor
        say which file is a version.
        """
        theirs, owner = venv.theirs, venv.placed().owner
        try:
            lock = builder.resolve(owner, theirs)
        except Failed as error:
            if is_away(str(error)):
                raise
            return self.own_lock(venv, builder, f"its versions do not fit: {error}")
        other = sorted(names(lock).keys() ^ names(theirs).keys())
        if other:
            why = f"it differs in packages that were not requested: {', '.join(other[:5])}"
            return self.own_lock(venv, builder, why)
        changed = exchanged(lock, theirs)
        if changed:
            raise Failed(
                f"The index has other files for {', '.join(changed[:5])} than another worker "
                "found there. Declare another version, or find out which of the files is right."
            )
        return with_commits(lock, theirs, venv.spec)

    def own_lock(self, venv: Venv, builder: Builder, why: str) -> str:
        """Return this worker's lock, and warn that another one's is not used."""
        self.warn(f"The lock of another worker for {venv.spec.name!r} is not used: {why}.")
        return venv.lock or builder.resolve(venv.placed().owner)

    def settled(self, venv: Venv) -> bool:
        """Return whether an environment is as declared, and set its stamp if so."""
        if not venv.lock or venv.site is None:
            return False
        if venv.waits:
            return venv.is_resolved()
        found = self.sound(venv, digest(venv.wish, venv.lock))
        if found is None:
            return False
        venv.stamp = found
        return venv.link == found["build"] and venv.before == self.recorded(venv)

    def sound(self, venv: Venv, content: str) -> dict[str, Any] | None:
        """Return the stamp of a complete build with this content, or None."""
        owner = venv.placed().owner
        for stamp in venv.builds:
            if stamp.get("hash") != content or stamp.get("owner") != venv.spec.owner:
                continue
            folder = Path(stamp["build"])

            def look(folder: Path = folder) -> list[Any]:
                return [is_whole(folder), packages_in(folder)]

            whole, packages = acting(owner, look)
            if not whole:
                continue
            by_hand = changes(packages, stamp["packages"])
            if by_hand and self.params["rebuild"]:
                continue
            if by_hand:
                self.warn(
                    f"A user has changed the environment {venv.spec.name!r} by hand: "
                    + ", ".join(by_hand)
                    + ". Declare the change, or build it again with fleet_rebuild_venvs=true."
                )
            return stamp
        return None

    def recorded(self, venv: Venv) -> dict[str, Any]:
        """Return what is recorded about an environment."""
        return {
            **{key: value for key, value in venv.stamp.items() if key != "lock"},
            "name": venv.spec.name,
            "path": venv.spec.path,
        }

    def build_one(self, venv: Venv) -> None:
        """Build an environment if necessary, and point its link to the build.

        One that waits for a run is only resolved, so that all workers will build the same.
        """
        site = venv.placed()
        builder = self.builder(venv)
        if venv.theirs:
            venv.lock = self.agreed(venv, builder)
            if self.settled(venv):
                return
        if not venv.lock:
            venv.lock = builder.resolve(site.owner)
        if venv.waits:
            keep_resolution(venv)
            return
        stamp = self.sound(venv, digest(venv.wish, venv.lock))
        if stamp is None:
            if not has_hashes(venv.lock):
                venv.lock = builder.resolve(site.owner, venv.lock)
            stamp = self.built(venv, builder, site)
        venv.stamp = stamp
        build = Path(stamp["build"])
        acting(site.keeper, lambda: switch(venv.path, build))
        note_build(stamp)
        write_atomically(venv.record.with_suffix(".lock"), stamp["lock"])
        write_atomically(venv.record, as_json(self.recorded(venv)))
        venv.changed = True

    def built(self, venv: Venv, builder: Builder, site: Site) -> dict[str, Any]:
        """Build an environment and return its stamp."""
        content = digest(venv.wish, venv.lock)
        taken = {stamp["build"] for stamp in venv.builds}
        serial = 1
        while build_path(venv.spec, content, serial) in taken:
            serial += 1
        folder = Path(build_path(venv.spec, content, serial))
        try:
            seen = builder.build(venv.lock, folder, site)
        except (Failed, OSError):
            discard(site, folder)
            raise
        return {
            "build": str(folder),
            "path": venv.spec.path,
            "hash": content,
            "wish": venv.wish,
            "lock": "".join(f"{line}\n" for line in lock_lines(venv.lock)),
            "accelerator": self.accelerator,
            "framework": venv.spec.framework,
            "framework_version": venv.spec.framework_version,
            "owner": venv.spec.owner,
            "python": seen["interpreter"],
            "python_version": seen["python"],
            "packages": seen["packages"],
            "freeze": freeze_hash(seen["python"], seen["packages"]),
            "uv": self.params["uv_version"],
        }

    def each(self, venvs: list[Venv], action: Any) -> None:
        """Run an action for several environments at once; an error affects only one of them."""

        def guarded(venv: Venv) -> None:
            try:
                action(venv)
            except (Failed, OSError) as error:
                venv.error = str(error)

        with threads.pool(max(1, self.params["parallel_builds"])) as pool:
            list(pool.map(guarded, venvs))

    # What is not wanted any more

    def undeclared(self) -> list[str]:
        """Return the names of recorded environments that are no longer declared."""
        if not self.params["prune"]:
            return []
        declared = {venv.spec.name for venv in self.venvs}
        known = {
            p.stem: json.loads(read_text(p) or "{}") for p in venv_build.RECORDS.glob("*.json")
        }
        return sorted(
            name
            for name, record in known.items()
            if name not in declared and not str(record.get("path")).startswith(VENVS_OF_ROLES)
        )

    def forget_resolutions(self) -> None:
        """Remove the locks that are kept for environments which are no longer declared."""
        if self.params["prune"]:
            declared = {venv.spec.name for venv in self.venvs}
            for path in resolution_of("").parent.glob("*.json"):
                if path.stem not in declared:
                    path.unlink()

    def remove(self, name: str) -> list[str]:
        """Remove an environment; builds in use stay until the next apply."""
        record = venv_build.RECORDS / f"{name}.json"
        known = json.loads(read_text(record) or "{}")
        path, build = Path(known.get("path", "/nonexistent")), known.get("build", "")
        owner = str(known.get("owner", "root"))
        removed = []
        # The files of a user without an account are left alone.
        if path not in {venv.path for venv in self.venvs} and account_of(owner):
            try:
                removed = self.taken_away(path, owner, build)
            except Failed as error:
                self.warn(f"The environment {name!r} is not removed: {error}")
                return []
            if builds_of(str(path)):
                return removed
        record.unlink()
        lock = record.with_suffix(".lock")
        if lock.exists():
            lock.unlink()
        return [*removed, str(record)]

    def taken_away(self, path: Path, owner: str, build: str) -> list[str]:
        """Remove an environment's link, if it leads to a build of the role, and the builds."""
        site = site_of(path, owner)

        def unlinked() -> bool:
            ours = bool(build) and target_of(path) == build
            if ours:
                path.unlink()
            return ours

        gone = [str(path)] if acting(site.keeper, unlinked) else []
        return gone + prune(site, None, 0)

    # Reporting

    def told(self, wanted: list[Venv], changed: bool, removed: list[str]) -> dict[str, Any]:
        """Return the module's result."""
        found = {}
        for venv in self.venvs:
            if venv.stamp:
                found[venv.spec.name] = {**self.recorded(venv), "packages": self.there(venv)}
        return {
            "changed": changed,
            "venvs": found,
            "removed": removed,
            **({"delayed": self.delayed} if self.delayed else {}),
            "stale": [path for path in self.params["companions"] if os.path.lexists(path)],
            "diff": [self.difference(venv) for venv in wanted if venv.changed],
        }

    def there(self, venv: Venv) -> dict[str, str]:
        """Return the installed packages, read as the owner."""
        build = Path(venv.stamp["build"])
        try:
            return acting(venv.placed().owner, lambda: packages_in(build))
        except Failed as error:
            self.warn(f"The environment {venv.spec.name!r} cannot be read: {error}")
            return {}

    def difference(self, venv: Venv) -> dict[str, str]:
        """Return the change of an environment for a diff."""
        before = listing(venv.before.get("packages", {}))
        shown = {"before_header": str(venv.path), "after_header": str(venv.path), "before": before}
        if venv.stamp:
            return {**shown, "after": listing(venv.stamp["packages"])}
        lines = lock_lines(venv.lock) or asked_lines(venv.spec, self.accelerator)
        after = "".join(f"{line}\n" for line in lines)
        return {**shown, "after": after, "after_header": f"{venv.path} (asked for)"}
