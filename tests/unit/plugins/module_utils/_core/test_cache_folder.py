"""Caches are where the user's environment says, or in the home folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.cache_folder import cache_folder


def test_caches_are_where_the_user_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    assert cache_folder({}) == Path("/home/alice/.cache/tpu-fleet")
    assert cache_folder({"XDG_CACHE_HOME": ""}) == cache_folder({})
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/tpu-fleet")
