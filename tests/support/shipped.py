"""What a machine gets of the collection, for tests that give it roles of their own."""

from __future__ import annotations

import functools
import io
import tarfile

from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_bundle import collection

_ROOT = "ansible_collections/tpu/fleet/"


@functools.cache
def plugins() -> dict[str, bytes]:
    """Return the plugins by their path in the collection."""
    with tarfile.open(fileobj=io.BytesIO(collection())) as archive:
        return {
            entry.name.removeprefix(_ROOT): content.read()
            for entry in archive
            if entry.name.startswith(f"{_ROOT}plugins/")
            and (content := archive.extractfile(entry)) is not None
        }
