"""Certificates of a run's workers, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent.act import certificates
from run_agent.act.terminal import CannotStart

KEY, NEW = "11" * 32, "22" * 32


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "prepare_folders", lambda _config: None)


def worker(folder: Path, number: int = 0, mtls: bool = True) -> Any:
    runtime = folder / str(number)
    runtime.mkdir(parents=True, exist_ok=True)
    paths = SimpleNamespace(runtime=runtime)
    return SimpleNamespace(run="digits", worker=number, user="nobody", mtls=mtls, paths=paths)


def trusts(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether a worker accepts the certificate of another."""
    words = ["openssl", "verify", "-CAfile", one["JAX_MTLS_CA_FILE"], other["JAX_MTLS_CERT_FILE"]]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_workers_accept_each_other_and_no_other_gang(tmp_path: Path) -> None:
    first, second = (certificates.given(worker(tmp_path, n), 2, [KEY]) for n in (0, 1))
    stranger = certificates.given(worker(tmp_path / "other"), 2, [NEW])
    assert trusts(first, second)
    assert trusts(second, first)
    assert not trusts(first, stranger)
    assert not trusts(stranger, first)
    shown = subprocess.check_output(
        ["openssl", "x509", "-noout", "-text", "-in", second["JAX_MTLS_CERT_FILE"]], text=True
    )
    assert "URI:tpu-fleet://digits/2/1" in shown
    assert "CA:FALSE" in shown


def test_a_worker_with_the_next_key_accepts_one_without_it_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    ahead = certificates.given(worker(tmp_path, 0), 1, [NEW, KEY])
    behind = certificates.given(worker(tmp_path, 1), 1, [KEY])
    done = certificates.given(worker(tmp_path, 2), 1, [NEW])
    assert trusts(ahead, behind)
    assert trusts(behind, ahead)
    assert trusts(ahead, done)


def test_only_the_user_reads_the_key_and_the_authority_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []
    run = subprocess.run

    def noted(words: list[str], **more: Any) -> Any:
        called.append(words)
        return run(words, **more)

    monkeypatch.setattr(certificates.subprocess, "run", noted)
    found = certificates.given(worker(tmp_path), 1, [KEY])
    again = certificates.given(worker(tmp_path), 2, [KEY])
    assert found["JAX_MTLS_KEY_FILE"] == again["JAX_MTLS_KEY_FILE"]
    assert Path(found["JAX_MTLS_KEY_FILE"]).stat().st_mode & 0o777 == 0o400
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"certificate.pem", "key.pem", "authorities.pem"}
    secret = certificates.mutual_tls.authority_key(KEY, "digits").splitlines()[1].decode()
    assert not any(secret in word or KEY in word for words in called for word in words)
    assert not any(secret in path.read_text() for path in tmp_path.rglob("*.pem"))


def test_a_run_without_it_has_none(tmp_path: Path) -> None:
    assert certificates.given(worker(tmp_path, mtls=False), 1, []) == {}


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotStart, match="no key of the gang"):
        certificates.given(worker(tmp_path), 1, [])
    monkeypatch.setattr(certificates, "PATH", str(tmp_path))
    with pytest.raises(CannotStart, match="mtls: openssl does not run"):
        certificates.given(worker(tmp_path), 1, [KEY])
