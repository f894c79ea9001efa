"""What is loaded before Ansible forks for its tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from ansible.plugins import loader
from ansible_collections.tpu.fleet.plugins.plugin_utils._core import forks


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_the_plugins_are_there_without_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    forks.load("ansible.builtin.flatten", "tpu.fleet.seconds")
    # As it would be in a fork whose task is the first to need them.
    monkeypatch.setattr(loader.PluginLoader, "_load_module_source", _fail)
    assert loader.filter_loader.get("ansible.builtin.combine")
    assert loader.filter_loader.get("tpu.fleet.machines")
    assert loader.test_loader.get("ansible.builtin.file")
    assert loader.connection_loader.get("ansible.builtin.local", class_only=True)


def test_the_collector_leaves_out_what_is_there() -> None:
    gc.unfreeze()
    forks.freeze()
    assert gc.get_freeze_count() > 10_000


def _fail(*_given: object, **_more: object) -> None:
    raise AssertionError("a plugin is loaded again")
