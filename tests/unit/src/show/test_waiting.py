"""What a command prints while it waits."""

from __future__ import annotations

import time

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff

from tpu_fleet.show import waiting


def test_only_who_waits_long_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting.waiting_for("Asking 3 workers"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(waiting, "REMINDERS", Backoff(0.05, 2.0, 0.1, jitter=0.0))
    with waiting.waiting_for("Asking 3 workers"):
        time.sleep(0.4)
    out, err = capsys.readouterr()
    assert out == ""
    # Two of the times have passed; a busy computer may sleep longer.
    assert err.count("Asking 3 workers: ") >= 2


def test_an_error_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with waiting.waiting_for("Asking"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().err == ""
