"""Make the certificates with which JAX's processes know each other, by the machine's openssl.

Private keys are never in a command line, and that of the authority is in no file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..decide import mutual_tls
from ..decide.config import Config
from .as_user import PATH, account_of
from .terminal import CannotStart, prepare_folders

# Clocks of workers may differ; an attempt may take as long as it likes.
_BEFORE, _AFTER = 86_400.0, 3650 * 86_400.0
_SECONDS = 60.0
_FILES = ("certificate.pem", "key.pem", "authorities.pem")


def given(config: Config, attempt: int, gang_keys: Sequence[str]) -> dict[str, str]:
    """Make the certificate of this worker for an attempt; return the variables that name it.

    `gang_keys` are those that are accepted, the newest first: the oldest, which all workers have,
    signs. Raises CannotStart.
    """
    if not config.mtls:
        return {}
    if not gang_keys:
        raise CannotStart("mtls: this worker has no key of the gang yet")
    prepare_folders(config)
    folder = config.paths.runtime / "tls"
    with tempfile.TemporaryDirectory(dir=config.paths.runtime, prefix=".tls-") as scratch:
        _make(Path(scratch), config, attempt, gang_keys)
        _hand_over(Path(scratch), folder, config.user)
    return mutual_tls.variables(str(folder), config.run, attempt)


def _make(at: Path, config: Config, attempt: int, gang_keys: Sequence[str]) -> None:
    authorities = [mutual_tls.authority_key(key, config.run) for key in gang_keys]
    signs = authorities[-1]
    texts = [_openssl(*_AUTHORITY, given=key) for key in authorities]
    (at / "authorities.pem").write_bytes(b"".join(texts))
    (at / "authority.pem").write_bytes(texts[-1])
    (at / "index.txt").touch()
    name = f"{mutual_tls.peers(config.run, attempt)}{config.worker}"
    (at / "settings").write_text(mutual_tls.settings(folder=at, name=name), encoding="ascii")
    key, request = str(at / "key.pem"), str(at / "request.pem")
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    _openssl("req", "-new", "-key", key, "-subj", "/CN=worker", "-out", request)
    words = ["-batch", "-notext", "-config", str(at / "settings"), "-in", request]
    words += ["-cert", str(at / "authority.pem"), "-keyfile", "/dev/stdin"]
    words += ["-startdate", _date(-_BEFORE), "-enddate", _date(_AFTER)]
    _openssl("ca", *words, "-out", str(at / "certificate.pem"), given=signs)


_AUTHORITY = (
    *("req", "-x509", "-new", "-key", "/dev/stdin", "-subj", "/CN=tpu-fleet run", "-days", "3650"),
    *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"),
)


def _date(after: float) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + after))


def _openssl(*words: str, given: bytes = b"") -> bytes:
    """Run openssl; return what it wrote."""
    environment = {"PATH": PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["openssl", *words],
            input=given,
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotStart(f"mtls: openssl does not run: {error}") from error
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CannotStart(f"mtls: openssl {words[0]} failed: {last}")
    return done.stdout


def _hand_over(scratch: Path, folder: Path, user: str) -> None:
    """Give the files to the run's user, in a folder that only root changes."""
    account = account_of(user)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    for name in _FILES:
        path = folder / name
        (scratch / name).replace(path)
        path.chmod(0o400)
        if os.geteuid() == 0 and account is not None:
            os.chown(str(path), account.pw_uid, account.pw_gid)
