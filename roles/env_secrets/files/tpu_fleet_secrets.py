"""Give a program the secrets of sets that role env_secrets wrote.

tpu-fleet-secrets exec SET... -- PROGRAM ...   run a program with them; nothing is stored
tpu-fleet-secrets fetch --service NAME --user NAME SET...
                                               as root: those from Google to /run/tpu-fleet/secrets
tpu-fleet-secrets json --user NAME SET...      print them, for the run agent
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import pwd
import re
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

_SETS = Path("/etc/tpu-fleet/secrets")
_RUNTIME = Path("/run/tpu-fleet/secrets")
_METADATA = "http://169.254.169.254"
_TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
_LINE = re.compile(r'^([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"$', re.M | re.S)
_TRIES = 4
# What the variables of a set may hold.
_MOST_BYTES = 1 << 20


class CannotGet(Exception):
    """A secret that is not available, and why; never the secret."""


def parse(text: str) -> dict[str, str]:
    """Read what the role wrote for systemd."""
    return {name: re.sub(r"\\(.)", r"\1", value, flags=re.S) for name, value in _LINE.findall(text)}


def read_set(name: str, user: str, folder: Path = _SETS) -> dict[str, Any]:
    """Return description and variables of a set that a user may use; root may use any."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise CannotGet("there can be no set of secrets of this name")
    try:
        description: dict[str, Any] = json.loads(
            (folder / (name + ".json")).read_text(encoding="utf-8")
        )
    except (OSError, ValueError):
        raise CannotGet(
            f"there is no set of secrets {name} on this host; declare it in fleet_secrets"
        ) from None
    # What root owns, root may give to any run; another user's secrets are for that user alone.
    if user and description["owner"] not in (user, "root"):
        raise CannotGet(f"the set of secrets {name} is {description['owner']}'s, not {user}'s")
    try:
        text = _read_plain(folder / (name + ".env"))
    except OSError as error:
        raise CannotGet(f"the set of secrets {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CannotGet(f"the set of secrets {name} is not in UTF-8") from None
    return dict(description, values=parse(text))


def _read_plain(path: Path) -> str:
    """Read a file that is a user's, who may have put anything there."""
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(handle)
        plain = stat.S_ISREG(seen.st_mode) and seen.st_size <= _MOST_BYTES
        with os.fdopen(os.dup(handle), "rb") as stream:
            content = stream.read(_MOST_BYTES + 1) if plain else b""
    finally:
        os.close(handle)
    if not plain or len(content) > _MOST_BYTES:
        raise CannotGet(
            f"{path} is no plain file of at most {_MOST_BYTES} bytes; remove it and run configure"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise CannotGet(f"{path} is not text; remove it and run configure") from None


def may_have_the_token(endpoint: str) -> bool:
    """Say whether an address may see the machine's token: Google's, and who gave it."""
    parts = urllib.parse.urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return host == "googleapis.com" or host.endswith(".googleapis.com")
    return parts.scheme == "http" and parts.netloc == urllib.parse.urlsplit(_METADATA).netloc


def _open(request: urllib.request.Request) -> bytes:
    # No proxy between the machine and its metadata server, and no redirect for a token.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    with opener.open(request, timeout=10) as answer:
        data: bytes = answer.read()
    return data


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_more: Any) -> urllib.request.Request | None:
        return None


def token() -> str:
    """Return a token of the machine's service account."""
    headers = {"Metadata-Flavor": "Google"}
    request = urllib.request.Request(_METADATA + _TOKEN, headers=headers)  # noqa: S310 - http, ours
    try:
        return str(json.loads(_open(request))["access_token"])
    except urllib.error.HTTPError as error:
        raise CannotGet(
            f"the TPU VM has no token ({error.code}); give its slice a service_account"
        ) from None
    except (OSError, ValueError, KeyError):
        raise CannotGet("the metadata server does not answer") from None


def access(name: str, endpoint: str, bearer: str) -> str:
    """Return one Google secret."""
    if not may_have_the_token(endpoint):
        raise CannotGet(f"the token of the TPU VM does not go to {endpoint}")
    address = f"{endpoint.rstrip('/')}/v1/{urllib.parse.quote(name)}:access"
    headers = {"Authorization": "Bearer " + bearer}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - checked above
    why = ""
    for again in range(_TRIES):
        if again:
            time.sleep(2 ** (again - 1))
        try:
            data = json.loads(_open(request))["payload"]["data"]
            return base64.b64decode(data).decode("utf-8")
        except urllib.error.HTTPError as error:
            why = _reason(error)
            if error.code not in (429, 500, 502, 503, 504):
                break
        except UnicodeDecodeError:
            why = "it is not a text"
            break
        except (OSError, ValueError, KeyError) as error:
            why = str(getattr(error, "reason", "")) or type(error).__name__
    raise CannotGet(f"Google secret {name}: {why}{_remedy(why)}")


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"


def _remedy(why: str) -> str:
    if "secretmanager.versions.access" in why:
        return (
            " Give the slice's service account the role roles/secretmanager.secretAccessor, "
            "or correct the name"
        )
    if "insufficient authentication scopes" in why:
        return " Recreate the slice with the scope cloud-platform"
    return ""


def gather(
    names: list[str], user: str, folder: Path = _SETS, google_only: bool = False
) -> dict[str, str]:
    """Return the variables of several sets; a later set wins."""
    result: dict[str, str] = {}
    bearer = ""
    for name in names:
        one = read_set(name, user, folder)
        if not google_only:
            result.update(one["values"])
        for variable, secret in sorted(one["google_secrets"].items()):
            bearer = bearer or token()
            result[variable] = access(secret, one["google_endpoint"], bearer)
    return result


def env_file(variables: dict[str, str]) -> str:
    """Write variables as systemd reads them."""
    lines = []
    for name, value in sorted(variables.items()):
        if any(ord(sign) < 32 and sign not in "\t\n" for sign in value):
            raise CannotGet(f"{name} holds a control character, which systemd does not take")
        escaped = re.sub(r'([\\"$`])', r"\\\1", value)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


def fetch(name: str, user: str, runtime: Path, folder: Path = _SETS) -> None:
    """Write the Google secrets of a set that a user may use to memory, for its owner alone.

    What was fetched before does not stay when it fails: the user may not have it any more.
    """
    runtime.mkdir(mode=0o711, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (runtime / f"{name}.env").unlink()
    owner = pwd.getpwnam(read_set(name, user, folder)["owner"])
    text = env_file(gather([name], user, folder, google_only=True))
    new = runtime / f".{name}.env.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        os.fchown(stream.fileno(), owner.pw_uid, owner.pw_gid)
    new.replace(runtime / f"{name}.env")


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def main(argv: list[str]) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(
        prog="tpu-fleet-secrets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    program: list[str] = []
    if argv[:1] == ["exec"] and "--" in argv:
        cut = argv.index("--")
        argv, program = argv[:cut], argv[cut + 1 :]
    parser.add_argument("command", choices=["exec", "fetch", "json"])
    parser.add_argument("--user", default="")
    parser.add_argument("--service", default="")
    parser.add_argument("sets", nargs="+")
    options = parser.parse_args(argv)
    try:
        if options.command == "fetch":
            if os.geteuid() != 0:
                raise CannotGet("only root may fetch: in a unit of its own, without User=")
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", options.service):
                raise CannotGet("say for which service: --service NAME")
            for name in options.sets:
                fetch(name, options.user, _RUNTIME / options.service)
            return 0
        found = gather(options.sets, options.user or _me())
    except CannotGet as error:
        print(error, file=sys.stderr)
        return 1
    if options.command == "json":
        if sys.stdout.isatty():
            print("this prints secrets; give it a pipe", file=sys.stderr)
            return 2
        json.dump(found, sys.stdout)
        return 0
    if not program:
        parser.error("say which program to run: exec SET -- PROGRAM")
    try:
        os.execvpe(program[0], program, dict(os.environ, **found))  # noqa: S606 - what was asked for
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
