"""What a machine gets of the collection, for tests that give it roles of their own."""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Mapping

from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import collection

_ROOT = "ansible_collections/tpu/fleet/"


@functools.cache
def plugins() -> dict[str, bytes]:
    """Return the plugins, and what is given to the roles, by their path in the collection."""
    with tarfile.open(fileobj=io.BytesIO(collection())) as archive:
        return {
            entry.name.removeprefix(_ROOT): content.read()
            for entry in archive
            if (
                entry.name.startswith(f"{_ROOT}plugins/")
                or entry.name.endswith("/meta/argument_specs.yml")
            )
            and (content := archive.extractfile(entry)) is not None
        }


def with_roles(roles: Mapping[str, str]) -> bytes:
    """Pack a collection as a machine gets it, with these tasks by the name of their role."""
    files = {"galaxy.yml": b"", **plugins()}
    files.update({f"roles/{role}/tasks/main.yml": text.encode() for role, text in roles.items()})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{_ROOT}{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
