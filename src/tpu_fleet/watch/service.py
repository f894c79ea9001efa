"""The watcher as a systemd user service, which systemd always restarts."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._github.client import (
    TOKENS as GITHUB_TOKENS,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.state import write_atomically

# Names of secrets have one of these words, those of files and settings another one after it.
SECRET_WORDS = frozenset(
    (*("TOKEN", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "SECRET"), "CREDENTIALS", "CREDENTIAL")
)
PLACES = frozenset(("FILE", "PATH", "DIR"))
KNOWN_PLACES = frozenset(("GOOGLE_APPLICATION_CREDENTIALS", "TPU_FLEET_SSH_KEY"))
SETTINGS = frozenset(("true", "false", "yes", "no", "on", "off", "1", "0", ""))
# A login in an address, as in that of a proxy; a key, as it is in a file.
SECRET_VALUE = re.compile(r"//[^/\s]*@|PRIVATE KEY|\"(?:private_key|refresh_token)\"")
KEPT_NAMES = ("PATH", "HOME", "SSH_AUTH_SOCK", "LANG")
KEPT_BEGINNINGS = ("ANSIBLE_", "CLOUDSDK_", "GOOGLE_", "TPU_FLEET_", "REQUESTS_", "SSL_CERT_")
ENDS = "It ends when you log out. To prevent that, run: sudo loginctl enable-linger $USER"
MANAGERS = Path("/run/user")
"""Below it systemd has a folder for each user with a manager of services."""
KEPT_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


class ServiceError(click.ClickException):
    """systemctl failed; the message is for people."""


def unit_name(digest: str) -> str:
    """Return the name of the unit of a fleet's watcher."""
    return f"tpu-fleet-watch-{digest}.service"


def kept(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that the service needs, and those left out as secrets."""
    wanted = {
        name: value
        for name, value in environment.items()
        if name in (*KEPT_NAMES, *GITHUB_TOKENS)
        or name.startswith(KEPT_BEGINNINGS)
        or name.lower() in KEPT_PROXIES
    }
    secret = sorted(name for name, value in wanted.items() if is_secret(name, value))
    return {name: wanted[name] for name in sorted(wanted) if name not in secret}, secret


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is a secret, by its name or its value."""
    if SECRET_VALUE.search(value):
        return True
    words = name.upper().split("_")
    named = not SECRET_WORDS.isdisjoint(words) or words[-1] in ("KEY", "APIKEY")
    place = name in KNOWN_PLACES or not PLACES.isdisjoint(words)
    return named and not place and value.lower() not in SETTINGS


def unit(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return the text of the unit."""
    lines = "\n".join(f"Environment={_quoted(f'{n}={v}')}" for n, v in environment.items())
    return f"""\
[Unit]
Description=tpu-fleet watch in {_escaped(str(folder))}
StartLimitIntervalSec=0

[Service]
ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in words)}
WorkingDirectory={_escaped(str(folder))}
{lines}
Restart=always
RestartSec=30
# Before it exits, it releases its lease and ends its playbooks.
TimeoutStopSec=60
Nice=5
UMask=0077

[Install]
WantedBy=default.target
"""


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """Quote a word for systemd."""
    inner = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{_escaped(inner)}"'


def units_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of a user's units."""
    config = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "systemd" / "user"


def install(name: str, text: str, environment: Mapping[str, str]) -> Path:
    """Write the unit, and start it now and at every boot."""
    if not sys.platform.startswith("linux"):
        raise ServiceError(
            f"A service needs systemd, which {sys.platform} does not have. Start tpu-fleet watch "
            "run in a terminal that stays open, or on a server with Linux."
        )
    # Before anything is written, because without an answer no unit could be removed either.
    _systemctl("show-environment")
    folder = units_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    write_atomically(path, text, mode=0o600, uid=os.getuid(), gid=os.getgid())
    _systemctl("daemon-reload")
    _systemctl("enable", name)
    _systemctl("restart", name)
    return path


def uninstall(name: str, environment: Mapping[str, str]) -> bool:
    """Stop the service and remove its unit; return whether there was one."""
    path = units_folder(environment) / name
    if not path.exists():
        return False
    _systemctl("disable", "--now", name)
    path.unlink()
    _systemctl("daemon-reload")
    return True


@dataclass(frozen=True)
class Service:
    """The installed service of a fleet's watcher, as systemd has it now."""

    name: str
    state: str
    """systemd's word (`active`, `activating`, …); empty if systemd does not answer."""
    pid: int
    """Its process; 0 while it has none."""


def service_of(name: str, environment: Mapping[str, str]) -> Service | None:
    """Return the service of this name; None if none is installed."""
    if not (units_folder(environment) / name).exists():
        return None
    try:
        told = _systemctl("show", name, "--property=ActiveState,MainPID")
    except ServiceError:
        return Service(name, "", 0)
    found = dict(line.partition("=")[::2] for line in told.splitlines())
    return Service(name, found.get("ActiveState", ""), int(found.get("MainPID") or 0))


def installed(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return the names of all watchers' services of this user, and the folders of their fleets."""
    found = []
    for path in sorted(units_folder(environment).glob(unit_name("*"))):
        lines = path.read_text(encoding="utf-8").splitlines()
        here = [line.partition("=")[2] for line in lines if line.startswith("WorkingDirectory=")]
        found.append((path.name, Path("".join(here[:1]).replace("%%", "%"))))
    return found


def lingers() -> bool | None:
    """Return whether this user's services run without a login; None if unknown."""
    words = ["loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())


def command_words(options: Sequence[str]) -> list[str]:
    """Return the command of the service, with this Python, independent of a later PATH."""
    return [sys.executable, "-m", "tpu_fleet", "watch", "run", *options]


def _systemctl(*words: str) -> str:
    """Return what systemctl prints; raises ServiceError, with what to do."""
    argv = ["systemctl", "--user", *words]
    otherwise = "Without systemd, start tpu-fleet watch run otherwise."
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        says = error.strerror if isinstance(error, OSError) else "it does not answer"
        raise ServiceError(f"{shlex.join(argv)}: {says}. {otherwise}") from error
    if done.returncode:
        says = f"{shlex.join(argv)} failed: {done.stderr.strip().rstrip('.')}."
        raise ServiceError(f"{says}{_without_manager()} {otherwise}")
    return done.stdout


def _without_manager() -> str:
    """Return what to do where this user's systemd is not there, or not found; empty if it is."""
    place = MANAGERS / str(os.getuid())
    if not (place / "systemd").exists():
        return (
            " This user's systemd does not run: log in as this user, not by su or sudo; or let it "
            f"run without a login: sudo loginctl enable-linger {getpass.getuser()}."
        )
    if os.environ.get("XDG_RUNTIME_DIR") != str(place):
        return f" XDG_RUNTIME_DIR does not name its folder: export XDG_RUNTIME_DIR={place}."
    return ""
