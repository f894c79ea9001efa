# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change what can be changed of a slice on Compute Engine: machine by machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .._core.errors import BadRequest
from .._tpu.model import Operation, basename
from .._tpu.node_plan import Difference
from .instance import Instance
from .slices import ComputeSlices


def patch_slice(
    slices: ComputeSlices,
    zone: str,
    name: str,
    differences: Sequence[Difference],
    patience: float,
    uid: str | None = None,
) -> Operation:
    """Change all machines of a slice; wait, because the next look has to show the changes.

    With `uid`, only of the slice that has it.
    """
    asked: list[Operation] = []
    for index, instance in enumerate(slices.workers(zone, name, uid)):
        for difference in differences:
            asked += _change(slices, zone, instance, str(index), difference)
    for operation in asked:
        slices.wait(operation, patience)
    target = f"projects/{slices.project}/locations/{zone}/nodes/{name}"
    return Operation("", done=True, target=target, verb="update")


def _change(
    slices: ComputeSlices, zone: str, instance: Instance, worker: str, difference: Difference
) -> Iterable[Operation]:
    field = difference.field
    if field == "labels":
        return _made(slices.set_labels(zone, instance.name, _altered(difference)))
    if field == "metadata":
        return _made(slices.set_metadata(zone, instance.name, _altered(difference)))
    if field == "tags":
        return _made(slices.set_tags(zone, instance.name, list(difference.want)))
    if field == "external_ips":
        if instance.has_access == bool(difference.want):
            return []
        return [slices.set_external_ip(zone, instance, bool(difference.want))]
    if field == "data_disks":
        return _change_disks(slices, zone, instance, worker, difference)
    raise BadRequest(
        f"{field} of {instance.name} is {difference.have!r}, wanted {difference.want!r}; on "
        "Compute Engine it is fixed when the slice is made.",
        remedy="Correct it, or recreate the slice (recreate: true).",
        resource=instance.name,
    )


def _change_disks(
    slices: ComputeSlices, zone: str, instance: Instance, worker: str, difference: Difference
) -> list[Operation]:
    """Detach what a machine is not to have any more, then attach what it lacks."""
    wanted = {
        basename(disk["sourceDisk"]): disk
        for disk in difference.want
        if worker in (disk.get("workerIds") or [worker])
    }
    have = {
        basename(disk["sourceDisk"]): disk["mode"] for disk in instance.properties()["dataDisks"]
    }
    done: list[Operation] = []
    for name, mode in have.items():
        if name not in wanted or wanted[name]["mode"] != mode:
            gone = _made(slices.detach_disk(zone, instance, name))
            # A disk can only be attached again once it is detached.
            done += [slices.wait(operation) for operation in gone]
    for name, disk in wanted.items():
        if have.get(name) != disk["mode"]:
            source, mode = str(disk["sourceDisk"]), str(disk["mode"])
            done.append(slices.attach_disk(zone, instance.name, source, mode))
    return done


def _made(operation: Operation | None) -> list[Operation]:
    return [] if operation is None else [operation]


def _altered(difference: Difference) -> Callable[[dict[str, str]], dict[str, str]]:
    """Return a function that changes a machine's own values as the slice's are to change."""
    gone = set(difference.have) - set(difference.want)

    def alter(have: dict[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in have.items() if key not in gone}
        return {**kept, **difference.want}

    return alter
