"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from garbage import pytest_collection, pytest_collection_finish  # noqa: F401 - hooks
from hypothesis import settings
from json_forms import forms_are_kept  # noqa: F401 - a fixture
from object_server import lab  # noqa: F401 - a fixture

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start:
# the tests that press it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the computer does, not whether it is right.
settings.register_profile("tpu-fleet", settings(deadline=None))
settings.load_profile("tpu-fleet")


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands have seen away from the history of the user that runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield
