"""The person of the fleet file whose SSH key is here, and a signature with that key.

`ssh-keygen` signs, with a key file or through the agent, so a passphrase or a touch stays between
it and the person. Nothing of a private key is read here.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMESPACE = "tpu-fleet-queue"
"""What a signature is for: one for anything else does not count here."""
SECONDS = 120.0
"""How long a person may take to touch a key, or to type a passphrase."""


class SignError(RuntimeError):
    """There is no usable key, or signing failed; the text has the remedy."""


@dataclass(frozen=True)
class Key:
    """A key that can sign: its public line, and where it is."""

    line: str
    path: str = ""
    """Its private or public file; empty: only the agent has it."""

    @property
    def identity(self) -> str:
        """Type and key, without the comment."""
        return identity_of(self.line)


@dataclass(frozen=True)
class Signer:
    """A person, with the key with which that person signs."""

    person: str
    key: Key

    def sign(self, text: str) -> str:
        """Return the armored signature of a text; raises SignError."""
        with _key_file(self.key) as path:
            said = _run("ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", path, text=text)
        if not said.startswith("-----BEGIN SSH SIGNATURE-----"):
            raise SignError(f"ssh-keygen wrote no signature with the key of {self.person}.")
        return said


def identity_of(line: str) -> str:
    """Return type and key of a public key's line; empty if it is none."""
    words = line.split()
    return " ".join(words[:2]) if len(words) > 1 else ""


def people_of(users: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the keys of each user of a fleet file, by its name."""
    found = {}
    for user in users:
        lines = [line for text in user.get("keys") or () for line in str(text).splitlines()]
        keys = {identity for identity in map(identity_of, lines) if identity}
        if keys and user.get("state") != "absent":
            found[str(user.get("name"))] = keys
    return found


def signer_of(users: Iterable[Mapping[str, Any]], given: str | None, login_key: Path) -> Signer:
    """Return who submits: the person to whom a key belongs that is here.

    `given` is a key file that the person names; else the agent's keys, those in ~/.ssh and the
    fleet's login key are tried. Raises SignError.
    """
    people = people_of(users)
    keys = [named_key(Path(given).expanduser())] if given else list(keys_here(login_key))
    found = {
        person: key
        for person, theirs in sorted(people.items())
        for key in reversed(keys)
        if key.identity in theirs
    }
    me = _login()
    if len(found) > 1 and me not in found:
        raise SignError(
            f"Keys of {' and '.join(found)} are here. Name yours with --ssh-key FILE, as "
            "--ssh-key ~/.ssh/id_ed25519."
        )
    if not found:
        raise SignError(_no_key(given, keys, people))
    person = me if me in found else next(iter(found))
    return Signer(person, found[person])


def _no_key(given: str | None, keys: Sequence[Key], people: Mapping[str, Any]) -> str:
    there = f"the key {given}" if given else f"none of the {len(keys)} SSH keys here"
    whose = f"{there} {'is not' if given else 'is'} that of a person in fleet_users"
    known = f" ({', '.join(sorted(people))})" if people else ", in which no user has keys"
    return (
        f"{whose[0].upper()}{whose[1:]}{known}. Add your public key to `keys` of your entry there "
        "and run tpu-fleet apply, or name your key with --ssh-key FILE."
    )


def _login() -> str:
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        return getpass.getuser()
    return ""


# Keys that are here


def named_key(path: Path) -> Key:
    """Return the key of a file, private or public; raises SignError."""
    beside = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    if not path.is_file():
        raise SignError(
            f"--ssh-key {path}: there is no such file. Name a key as ~/.ssh/id_ed25519."
        )
    if beside.is_file():
        return Key(_first_line(beside), str(path))
    return Key(_run("ssh-keygen", "-y", "-f", str(path)).strip(), str(path))


def keys_here(login_key: Path) -> Iterator[Key]:
    """Yield the keys that can sign: those in ~/.ssh first, then the agent's, then the fleet's."""
    files = sorted((Path.home() / ".ssh").glob("*.pub"))
    held = _in_agent()
    for public in files:
        private = public.with_suffix("")
        line = _first_line(public)
        if private.is_file():
            yield Key(line, str(private))
        elif identity_of(line) in held:
            yield Key(line, str(public))
    yield from (Key(line) for line in held.values())
    public = login_key.with_name(f"{login_key.name}.pub")
    if login_key.is_file() and public.is_file():
        yield Key(_first_line(public), str(login_key))


def _in_agent() -> dict[str, str]:
    """Return the public lines of the agent's keys, by their identity; none without an agent."""
    if not os.environ.get("SSH_AUTH_SOCK"):
        return {}
    with contextlib.suppress(SignError):
        lines = _run("ssh-add", "-L").splitlines()
        return {identity_of(line): line for line in lines if identity_of(line)}
    return {}


def _first_line(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8").partition("\n")[0]
    return ""


@contextlib.contextmanager
def _key_file(key: Key) -> Iterator[str]:
    """Yield the file that ssh-keygen signs with; for a key of the agent, its public line."""
    if key.path:
        yield key.path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key.pub"
        path.write_text(f"{key.line}\n", encoding="utf-8")
        yield str(path)


def _run(*words: str, text: str | None = None) -> str:
    """Return what a program of OpenSSH writes; raises SignError with its reason."""
    try:
        done = subprocess.run(
            words,
            input=None if text is None else text.encode("utf-8", "surrogateescape"),
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SignError(f"{words[0]} failed: {error}. It is a part of OpenSSH 8.2.") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SignError(f"{words[0]} failed: {reason or f'exit code {done.returncode}'}.")
    return done.stdout.decode("utf-8", "replace")
