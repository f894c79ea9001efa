from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Let Ansible find the collection before Python does, or tests of plugins cannot import it."""
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([str(Path(__file__).parents[2] / "collections")])


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Return a new folder that only root writes, and that every user can enter.

    Not below pytest's own: each start of pytest closes /tmp/pytest-of-root to all but root, also
    one that begins while another one is at work.
    """
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-test-") as made:
        path = Path(made)
        path.chmod(0o711)
        yield path
