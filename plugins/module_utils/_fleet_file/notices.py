# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet file says that is allowed and will cost its owner something. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .._core.in_zone import in_zone
from .._roles.python_env.frameworks import DEFAULT_VERSIONS, RELEASES, unknown_release
from .._roles.training_run.definition import checkpoint_folder
from .._schema.keys import entries, text_of, texts_of
from .._tpu.model import COMPUTE
from .declared import Slice
from .grant import Grant, allocation_problems, parse_allocations

Data = Mapping[str, Any]
# Tiers of which Google takes a slice back, and deletes its boot disks with it.
PREEMPTED = ("spot", "best_effort")
# The variables that the warnings are about.
NOTICED = (
    "fleet_allocations",
    "fleet_slices",
    "fleet_zone",
    "fleet_users",
    "fleet_disks",
    "fleet_shares",
    "fleet_buckets",
    "fleet_datasets",
    "fleet_runs",
    "fleet_venvs",
    *(f"fleet_{framework}_version" for framework in DEFAULT_VERSIONS),
)
# What puts a file system at a path that outlives the slice.
LASTING = ("fleet_disks", "fleet_buckets")
# Compute Engine's default account, of which a project has one.
_DEFAULT_ACCOUNT = re.compile(r"\d+-compute@developer\.gserviceaccount\.com")


@dataclass(frozen=True)
class Notice:
    """A warning about a field of the fleet file, with what to do about it."""

    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}. {self.remedy}."


def notices(data: Data, now: datetime) -> list[Notice]:
    """Return the warnings about a fleet file whose values are right."""
    found = (
        _ended(data, now),
        _checkpoints_lost(data),
        _left_behind(data),
        _no_account(data),
        _shared_accounts(data),
        _unknown_releases(data),
        _unchecked_files(data),
    )
    return [notice for some in found for notice in some]


def _ended(data: Data, now: datetime) -> Iterator[Notice]:
    """Yield the entries of the grant that are over."""
    grant = _grant(data)
    for entry in grant.allocations if grant else ():
        if entry.is_over(now):
            message = f"{entry} was granted until {entry.last_day}, so it holds nothing any more"
            yield Notice(entry.field, message, "Take the entry out, or write its new end")


def _grant(data: Data) -> Grant | None:
    raw = data.get("fleet_allocations")
    return None if raw is None or allocation_problems(raw) else parse_allocations(raw)


def _slices(data: Data) -> dict[str, Slice]:
    zone, grant = text_of(data, "fleet_zone"), _grant(data)
    found = (Slice.read(entry, zone, grant=grant) for _f, entry in entries(data, "fleet_slices"))
    return {one.name: one for one in found if one.name}


# -- checkpoints -------------------------------------------------------------------------------


def _checkpoints_lost(data: Data) -> Iterator[Notice]:
    """Yield the runs whose checkpoints a preemption deletes."""
    slices = _slices(data)
    for field, run in entries(data, "fleet_runs"):
        folder = checkpoint_folder(run)
        if not isinstance(folder, str) or not folder.startswith("/"):
            continue
        holders = [_holder(data, one.name, folder) for one in _slices_of(run, slices)]
        lost = [
            slices[holder]
            for holder in dict.fromkeys(holders)
            if holder in slices and slices[holder].tier in PREEMPTED
        ]
        if lost:
            where = ", ".join(f"{one.name} ({one.tier})" for one in lost)
            yield Notice(
                f"{field}.checkpoint_dir",
                f"run {run.get('name')} keeps its checkpoints in {folder}, on the boot disk of "
                f"{where}: a preemption deletes this disk, and the run begins from step 0",
                "Set it to a bucket (gs://BUCKET/FOLDER), or to a folder on a data disk",
            )


def _left_behind(data: Data) -> Iterator[Notice]:
    """Yield the runs whose slice may move to a region in which they have no checkpoint yet."""
    slices = _slices(data)
    for field, run in entries(data, "fleet_runs"):
        folder = text_of(run, "checkpoint_dir") or ""
        moving = [
            one.name
            for one in _slices_of(run, slices)
            if len({in_zone(folder, zone) for zone in one.zones}) > 1
        ]
        if moving:
            yield Notice(
                f"{field}.checkpoint_dir",
                f"run {run.get('name')} has a bucket in each region of {', '.join(moving)}: when "
                "the slice is created in another region, the run begins there from step 0",
                "Copy the newest checkpoint there before, or name the zones of one region",
            )


def _holder(data: Data, name: str, folder: str) -> str:
    """Return the slice whose boot disk has a folder of a slice; empty if the folder outlives it."""
    if _lasts(data, name, folder):
        return ""
    for _field, share in entries(data, "fleet_shares"):
        path, exporter = text_of(share, "path"), text_of(share, "slice")
        if not path or not _below(folder, path):
            continue
        if text_of(share, "server"):
            return ""
        if exporter and (exporter == name or name in (_named(share) or [name])):
            exported = text_of(share, "export_path") or path
            return "" if _lasts(data, exporter, exported) else exporter
    return name


def _lasts(data: Data, name: str, folder: str) -> bool:
    """Return whether a slice has a folder on a data disk or in a bucket."""
    return any(
        _below(folder, text_of(entry, "path") or "") and name in (_named(entry) or [name])
        for variable in LASTING
        for _field, entry in entries(data, variable)
        # What each machine has by itself, as a local SSD, is lost with it.
        if entry.get("attach") is not False and entry.get("slices") != []
    )


def _below(folder: str, path: str) -> bool:
    return bool(path) and f"{folder}/".startswith(f"{path.rstrip('/')}/")


def _named(entry: Data) -> list[str]:
    """Return the slices that an entry names; none stands for all."""
    return [name for _index, name in texts_of(entry, "slices")]


def _slices_of(entry: Data, slices: Mapping[str, Slice]) -> list[Slice]:
    """Return the slices of an entry, of those that are declared."""
    return [slices[name] for name in _named(entry) or slices if name in slices]


# -- service accounts --------------------------------------------------------------------------


def _no_account(data: Data) -> Iterator[Notice]:
    """Yield the runs with checkpoints in a bucket on machines that get no token for it."""
    slices = _slices(data)
    for field, run in entries(data, "fleet_runs"):
        folder = text_of(run, "checkpoint_dir") or ""
        without = [
            one.name
            for one in _slices_of(run, slices)
            if one.api == COMPUTE and not one.options.get("service_account")
        ]
        if folder.startswith("gs://") and without:
            yield Notice(
                f"{field}.checkpoint_dir",
                f"run {run.get('name')} keeps its checkpoints in a bucket, and "
                f"{', '.join(without)} has no service account on Compute Engine, so that the "
                "program gets no token there",
                "Set service_account of the slice to an account that may write to the bucket",
            )


def _shared_accounts(data: Data) -> Iterator[Notice]:
    """Yield the slices that several people without sudo share beside an account for everything.

    The metadata server gives the account's token to each user of a machine. The project's default
    account may edit the project in many projects: keys in its metadata, machines, other accounts.
    """
    fields = {text_of(entry, "name"): field for field, entry in entries(data, "fleet_slices")}
    for name, one in _slices(data).items():
        account = text_of(one.options, "service_account") or ""
        has_default = _DEFAULT_ACCOUNT.fullmatch(account) if account else one.api != COMPUTE
        without = [
            str(user.get("name"))
            for _field, user in entries(data, "fleet_users")
            if user.get("sudo") != "all"
            and user.get("state") != "absent"
            and name in (_named(user) or [name])
        ]
        if has_default and len(without) > 1:
            yield Notice(
                f"{fields[name]}.service_account",
                f"{'is' if account else 'is missing, so that slice ' + name + ' has'} the "
                "project's default account, which may edit the whole project in many projects; "
                f"{_some(without)} have no sudo there, and can get its token",
                "Declare an account with fewer rights in fleet_service_account, and name it here",
            )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} others" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


# -- data sets ---------------------------------------------------------------------------------


def _unchecked_files(data: Data) -> Iterator[Notice]:
    """Yield the data sets of which nothing but the length is checked."""
    for field, entry in entries(data, "fleet_datasets"):
        if (text_of(entry, "from") or "").startswith("http") and not entry.get("sha256"):
            message = f"data set {entry.get('name')} has no sha256, so a changed file is taken"
            yield Notice(f"{field}.sha256", message, "Write what sha256sum prints of the file")


# -- frameworks --------------------------------------------------------------------------------


def _unknown_releases(data: Data) -> Iterator[Notice]:
    """Yield the venvs whose release of a framework is newer than the table of this collection."""
    for field, entry in entries(data, "fleet_venvs"):
        framework = text_of(entry, "framework") or "none"
        own = text_of(entry, "framework_version")
        version = own or text_of(data, f"fleet_{framework}_version") or ""
        told = unknown_release(framework, version) if version else ""
        if told:
            at = f"{field}.framework_version" if own else f"fleet_{framework}_version"
            remedy = f"Use {RELEASES[framework][-1].version}, or an upgrade of tpu.fleet"
            yield Notice(
                at, f"{version} {told}; whether Python and libtpu fit is not checked", remedy
            )
