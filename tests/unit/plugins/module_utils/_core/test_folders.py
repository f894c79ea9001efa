"""What is below another user's folder is none that a command could use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.folders import is_folder


def test_what_cannot_be_seen_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_folder(tmp_path)
    assert not is_folder(tmp_path / "none")

    def refuse(*_path: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        seen = is_folder(tmp_path)
    assert not seen
