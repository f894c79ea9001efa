"""The unit of the service, without systemd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpu_fleet.watch import service


def test_what_a_service_is_given() -> None:
    kept, secret = service.kept(
        {
            "PATH": "/bin",
            "EDITOR": "vi",
            "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
            "CLOUDSDK_AUTH_ACCESS_TOKEN": "hush",
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": "/token",
            "ANSIBLE_VAULT_PASSWORD_FILE": "/vault",
            "https_proxy": "http://p",
        }
    )
    assert set(kept) == {
        *("PATH", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"),
        *("ANSIBLE_VAULT_PASSWORD_FILE", "https_proxy"),
    }
    assert secret == ["CLOUDSDK_AUTH_ACCESS_TOKEN"]


def test_the_unit_quotes_what_systemd_would_read() -> None:
    words = ["/opt/my venv/python", "-m", "x$y", '50%"']
    text = service.unit(words, Path("/home/a/100% mine"), {"A": "b $c\nd"})
    assert 'ExecStart="/opt/my venv/python" "-m" "x$$y" "50%%\\""' in text
    assert "WorkingDirectory=/home/a/100%% mine" in text
    # A dollar means something in the command alone.
    assert 'Environment="A=b $c\\nd"' in text
    assert "Restart=always" in text


def test_install_and_uninstall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    stand_in = tmp_path / "bin" / "systemctl"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    path = service.install("w.service", "[Unit]\n", environment)
    assert path == tmp_path / "config/systemd/user/w.service"
    assert path.stat().st_mode & 0o777 == 0o600
    assert service.uninstall("w.service", environment)
    assert not service.uninstall("w.service", environment)
    assert calls.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable w.service",
        "--user restart w.service",
        "--user disable --now w.service",
        "--user daemon-reload",
    ]


def test_what_systemd_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(service.ServiceError, match="Without systemd"):
        service.install("w.service", "", {"XDG_CONFIG_HOME": str(tmp_path)})
