"""Fixtures: a module, run in this process against the emulator."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from emulator import Emulator

Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(
    cloud: Emulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Module:
    """Run a module as its main program does, and return its result."""

    def run(
        name: str, args: dict[str, Any], *, check: bool = False, env: dict[str, str] | None = None
    ) -> dict[str, Any]:
        plugin = importlib.import_module(f"ansible_collections.tpu.fleet.plugins.modules.{name}")
        with monkeypatch.context() as patch:
            for key, value in {**cloud.env(HOME=str(tmp_path)), **(env or {})}.items():
                patch.setenv(key, value)
            given = {**args, "_ansible_check_mode": check}
            with patch_module_args(given), pytest.raises(SystemExit) as ended:
                plugin.main()
        printed = capsys.readouterr()
        # A module in this process takes itself for the controller, which prints its warnings.
        warned = " ".join(printed.err.split())
        return {"rc": ended.value.code, "warned": warned, **json.loads(printed.out)}

    return run
