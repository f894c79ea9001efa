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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_BECOME_PASS", "hush"),
        ("ANSIBLE_SSH_PASS", "hush"),
        ("ANSIBLE_PASSWORD", "hush"),
        ("ANSIBLE_PRIVATE_KEY_PASSPHRASE", "hush"),
        ("ANSIBLE_HASHI_VAULT_SECRET_ID", "hush"),
        ("ANSIBLE_GALAXY_SERVER_X_TOKEN", "hush"),
        ("CLOUDSDK_AUTH_ACCESS_TOKEN", "hush"),
        ("GOOGLE_CREDENTIALS", '{"private_key": "hush"}'),
        ("GOOGLE_API_KEY", "hush"),
        ("GOOGLE_CLOUD_KEYFILE_JSON", '{"private_key": "hush"}'),
        ("TPU_FLEET_ANYTHING", "-----BEGIN OPENSSH PRIVATE KEY-----\nhush"),
        ("https_proxy", "http://user:hush@proxy:3128"),
        ("HTTP_PROXY", "http://hush@proxy:3128"),
        ("TPU_FLEET_API", "https://user:hush@proxy/"),
        # GitHub's are named, though the service would not need them for anything else.
        ("GITHUB_TOKEN", "hush"),
        ("GH_TOKEN", "hush"),
    ],
)
def test_no_secret_stands_in_the_unit_and_each_is_named(name: str, value: str) -> None:
    kept, secret = service.kept({"PATH": "/bin", name: value})
    assert (kept, secret) == ({"PATH": "/bin"}, [name])
    assert "hush" not in service.unit(["x"], Path("/x"), kept)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_HOST_KEY_CHECKING", "False"),
        ("ANSIBLE_BECOME_ASK_PASS", "False"),
        ("ANSIBLE_PRIVATE_KEY_FILE", "/home/a/.ssh/id"),
        ("ANSIBLE_VAULT_PASSWORD_FILE", "~/.vault"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/key.json"),
        ("CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE", "/key.json"),
        ("TPU_FLEET_SSH_KEY", "~/.ssh/tpu_fleet"),
        ("no_proxy", "localhost,10.0.0.0/8"),
    ],
)
def test_what_only_sounds_like_a_secret_is_kept(name: str, value: str) -> None:
    assert service.kept({name: value}) == ({name: value}, [])


def test_the_unit_is_never_readable_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for the moment between its creation and chmod, nor where one is replaced."""
    monkeypatch.setattr(service, "_systemctl", lambda *_words: None)
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    folder = service.units_folder(environment)
    folder.mkdir(parents=True)
    (folder / "w.service").write_text("old")
    modes = []
    monkeypatch.setattr(os, "fsync", lambda fd: modes.append(os.fstat(fd).st_mode & 0o777))
    monkeypatch.setattr(Path, "chmod", lambda *_words: pytest.fail("too late"))
    path = service.install("w.service", "new", environment)
    assert modes[0] == 0o600
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


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
        "--user show-environment",
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


def test_where_no_manager_answers_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit was left there, which uninstall could not remove for the same reason."""
    stand_in = tmp_path / "bin" / "systemctl"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    monkeypatch.setattr(service, "MANAGERS", tmp_path / "run")
    remedy = r"Failed to connect to bus\. This user's systemd does not run: log in as this user"
    with pytest.raises(service.ServiceError, match=remedy):
        service.install("w.service", "[Unit]\n", environment)
    assert not (tmp_path / "config").exists()
    assert not service.uninstall("w.service", environment)
    # It runs, and a shell of su or sudo does not name it.
    (tmp_path / "run" / str(os.getuid()) / "systemd").mkdir(parents=True)
    remedy = rf"XDG_RUNTIME_DIR does not name its folder: export XDG_RUNTIME_DIR={tmp_path}/run/"
    with pytest.raises(service.ServiceError, match=remedy):
        service.install("w.service", "[Unit]\n", environment)


def test_what_systemd_says_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "bin" / "systemctl"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\nprintf 'MainPID=0\\nActiveState=activating\\n'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    name = service.unit_name("abc")
    assert service.service_of(name, environment) is None
    assert service.installed(environment) == []
    service.install(name, service.unit(["x"], Path("/home/a/100% mine"), {}), environment)
    assert service.service_of(name, environment) == service.Service(name, "activating", 0)
    assert service.installed(environment) == [(name, Path("/home/a/100% mine"))]
    stand_in.write_text("#!/bin/sh\nexit 1\n")
    assert service.service_of(name, environment) == service.Service(name, "", 0)


def test_without_systemd_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.sys, "platform", "darwin")
    remedy = r"darwin does not have\. Start tpu-fleet watch run"
    with pytest.raises(service.ServiceError, match=remedy):
        service.install("a.service", "text", {"XDG_CONFIG_HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
