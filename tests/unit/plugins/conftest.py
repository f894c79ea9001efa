"""Fixtures of the plugins' tests, which ansible-test has, too."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


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


@pytest.fixture
def import_env() -> dict[str, str]:
    """Return the environment in which another Python finds what this one finds.

    Under ansible-test the interpreter alone finds neither Ansible nor the collection.
    """
    above = [str(one.parent) for one in Path(__file__).parents if one.name == "ansible_collections"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, *above])}
