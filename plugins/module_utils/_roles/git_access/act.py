# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write git's keys and settings into a home. Runs with the rights of its owner."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, read_plain
from ..._host.state import write_atomically
from ..._host.work import difference
from .plan import GIT_CONFIG, GIT_INCLUDING, KEY_PREFIX, Home, with_include, without_include

KEYGEN_SECONDS = 60


@dataclass(frozen=True)
class KeyFile:
    """A wanted private key."""

    path: str
    name: str
    comment: str
    content: str = field(default="", repr=False)
    given: bool = False
    """Whether the content is given; otherwise the key is generated here, once."""


def read_text(path: Path) -> str | None:
    """Return the text of a plain file of a home; None if it does not exist."""
    content = read_plain(str(path))
    return None if content is None else content.decode("utf-8", "surrogateescape")


def read_ours(path: Path) -> str | None:
    """Return the text of a file that the role owns; None if it must be written again.

    Whatever replaced it is removed, except a folder, which may have a user's files.
    """
    try:
        return read_text(path)
    except UserError:
        if path.is_dir() and not path.is_symlink():
            raise
        return ""


def public_key(keygen: str, path: str) -> str:
    """Return the public half of a private key, without its comment."""
    done = _keygen(keygen, "-y", "-P", "", "-f", path)
    if done.returncode:
        raise UserError(f"{path} is not a private key that OpenSSH can read without a passphrase")
    return " ".join(done.stdout.split()[:2])


def _keygen(*argv: str) -> Any:
    # This is a child process without a module, so there is no run_command.
    # pylint: disable-next=ansible-bad-function
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=KEYGEN_SECONDS,
        check=False,
    )


def settle_key(keygen: str, wanted: KeyFile, *, check: bool) -> tuple[str, list[dict[str, str]]]:
    """Write a key and its public half; return that half and the changes."""
    path = Path(wanted.path)
    public_path = Path(f"{wanted.path}.pub")
    changes: list[dict[str, str]] = []
    before = read_ours(path) if wanted.given else read_text(path)
    if wanted.given and before != wanted.content:
        changes.append(_key_change(wanted, before is not None))
        if not check:
            _write(path, wanted.content, 0o600)
    elif not wanted.given and before is None:
        changes.append(_key_change(wanted, False))
        if not check:
            public_path.unlink(missing_ok=True)
            made = _keygen(
                keygen, "-q", "-t", "ed25519", "-N", "", "-C", wanted.comment, "-f", str(path)
            )
            if made.returncode:
                raise UserError(f"ssh-keygen cannot create {path}: {made.stderr.strip()}")
    elif stat.S_IMODE(path.stat().st_mode) & 0o177:
        changes.append(difference(str(path), "open to others\n", "mode 0600\n"))
        if not check:
            path.chmod(0o600)
    if check and changes:
        return "", changes
    public = public_key(keygen, str(path))
    if " ".join((read_ours(public_path) or "").split()[:2]) != public:
        after = f"{public} {wanted.comment}\n"
        changes.append(difference(str(public_path), "", after))
        if not check:
            _write(public_path, after, 0o644)
    return public, changes


def settle(
    keygen: str, folder: str, home: Home, files: list[KeyFile], *, check: bool
) -> dict[str, Any]:
    """Bring a home to its declared state; return its public keys by name, and the changes."""
    base = Path(folder)
    if not base.is_dir():
        raise UserError(f"the home {folder} does not exist")
    public: dict[str, str] = {}
    changes: list[dict[str, str]] = []
    if files and not check:
        (base / ".ssh").mkdir(mode=0o700, exist_ok=True)
    for wanted in files:
        public[wanted.name], made = settle_key(
            keygen, replace(wanted, path=str(base / wanted.path)), check=check
        )
        changes += made
    for name in home.gone:
        for path in (base / f"{KEY_PREFIX}{name}", base / f"{KEY_PREFIX}{name}.pub"):
            if os.path.lexists(path):
                changes.append(difference(str(path), "a key\n", ""))
                if not check:
                    path.unlink()
    changes += _settle_settings(base, home, check=check)
    return {"public": public, "changes": changes}


def _settle_settings(base: Path, home: Home, *, check: bool) -> list[dict[str, str]]:
    if not home.settings and not home.had_settings:
        return []
    wanted: list[tuple[Path, str | None]] = []
    # ~/.gitconfig may be a link of dotfiles: its target is changed, not the link.
    including = Path(os.path.realpath(base / GIT_INCLUDING))
    try:
        before = read_text(including)
    except (OSError, UserError) as error:
        raise _named(base / GIT_INCLUDING, including, error) from error
    if home.settings:
        wanted.append((base / GIT_CONFIG, home.settings))
        wanted.append((including, with_include(before or "")))
    else:
        wanted.append((base / GIT_CONFIG, None))
        left = without_include(before or "")
        wanted.append((including, left or None))
    changes = []
    for path, content in wanted:
        now = read_text(path) if path == including else read_ours(path)
        if now == content:
            continue
        changes.append(difference(str(path), now or "", content or ""))
        if check:
            continue
        try:
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, content, 0o644)
        except OSError as error:
            if path == including:
                raise _named(base / GIT_INCLUDING, including, error) from error
            raise
    return changes


def _named(link: Path, path: Path, error: OSError | UserError) -> UserError:
    """Return the error with the path in the user's home, which may be a link."""
    why = getattr(error, "strerror", None) or str(error)
    return UserError(f"{link}: {why}" if path == link else f"{link}, a link to {path}: {why}")


def _write(path: Path, content: str, mode: int) -> None:
    write_atomically(path, content, mode=mode, uid=os.getuid(), gid=os.getgid())


def _key_change(wanted: KeyFile, replaced: bool) -> dict[str, str]:
    """Return the change of a private key, without any of its content."""
    before = "another private key\n" if replaced else ""
    after = "the private key that is declared\n" if wanted.given else "a new private key\n"
    return difference(wanted.path, before, after)
