# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine runs at boot that sets itself up: it stands as it is in the startup script.

It fetches what the machine is to be, from a bucket or a share, and hands over to the agent that
comes with it. Whoever may write there is not believed: what is fetched is signed with a key that
the metadata of the machine admit, and everything else is known by its hash. Until all is done it
tries again, at ever longer intervals. It needs Python 3.8 and ssh-keygen, and no other file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

METADATA = "http://169.254.169.254/computeMetadata/v1/"
NAMESPACE = "tpu-fleet-self-setup"
SIGNER = "tpu-fleet"
STATUS = Path("/var/lib/tpu-fleet/self-setup.json")
KNOWN = Path("/var/lib/tpu-fleet/apply/known.json")
AGENTS = Path("/opt/tpu-fleet/apply")
RUNTIME = Path("/run/tpu-fleet")
LOG = Path("/var/log/tpu-fleet/self-setup.log")
LOG_BYTES = 1 << 20
PAUSE, LONGEST_PAUSE = 5.0, 300.0
# Seconds for one answer.
PATIENCE = 60.0
# What this machine began, and has to end.
BEGUN = ("begun", "failed")
# It is done, or was left to a controller.
OVER = ("done", "left")


class Trouble(Exception):
    """It cannot be done now, with the reason and the remedy in words."""


class NotThere(Trouble):
    """There is nothing of this name."""


class Told(Trouble):
    """It was tried, and the agent has written down how it ended."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow whoever sends us elsewhere."""

    def redirect_request(self, *_words: Any, **_more: Any) -> None:
        """Go nowhere."""


# Of this machine and of Google alone: no proxy has to do with it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def get(url: str, headers: Mapping[str, str]) -> bytes:
    """Return what is at an address; Trouble says why there is nothing."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http and https only
    try:
        with _OPENER.open(request, timeout=PATIENCE) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        told = error.read(500).decode("utf-8", "replace")
        kind = NotThere if error.code == 404 else Trouble
        raise kind(f"{url}: HTTP {error.code} {' '.join(told.split())[:300]}") from error
    except (OSError, ValueError) as error:
        raise Trouble(f"{url}: {error}") from error


def metadata(path: str, otherwise: Optional[str] = None) -> str:
    """Return what the metadata server says of this machine."""
    try:
        return get(METADATA + path, {"Metadata-Flavor": "Google"}).decode()
    except NotThere:
        if otherwise is None:
            raise
        return otherwise


class Bucket:
    """A folder of a bucket, read with the rights of the machine's service account."""

    def __init__(self, place: Mapping[str, str]) -> None:
        self._base = f"{place['endpoint']}/storage/v1/b/{place['bucket']}/o/"
        self._prefix = place.get("prefix", "")

    def read(self, name: str) -> bytes:
        """Return an object."""
        token = json.loads(metadata("instance/service-accounts/default/token"))["access_token"]
        url = self._base + urllib.parse.quote(self._prefix + name, safe="")
        return get(f"{url}?alt=media", {"Authorization": f"Bearer {token}"})


class Share:
    """A folder of an NFS server, mounted for as long as something is read."""

    def __init__(self, place: Mapping[str, str]) -> None:
        self._source = f"{place['server']}:{place['export_path']}"
        self._point = RUNTIME / "self-setup-share"

    def read(self, name: str) -> bytes:
        """Return a file."""
        self._mount()
        try:
            return (self._point / name).read_bytes()
        except FileNotFoundError as error:
            raise NotThere(f"{self._source}: {error}") from error
        except OSError as error:
            raise Trouble(f"{self._source}: {error}") from error

    def _mount(self) -> None:
        self._point.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.ismount(self._point):
            return
        if not shutil.which("mount.nfs"):
            lock = "DPkg::Lock::Timeout=600"
            _run("apt-get", "-q", "-o", lock, "update")
            _run("apt-get", "-q", "-y", "-o", lock, "install", "nfs-common")
        # A server that is away is tried again by us, and nothing hangs meanwhile.
        _run("mount", "-t", "nfs", "-o", "ro,soft,nosuid", self._source, str(self._point))

    def close(self) -> None:
        """Have nothing mounted any more."""
        if os.path.ismount(self._point):
            _run("umount", "-l", str(self._point))


def source_of(place: Mapping[str, str]) -> Any:
    """Return where everything is."""
    return Bucket(place) if place.get("bucket") else Share(place)


def _run(*argv: str) -> None:
    # There is no module here to run it with.
    # pylint: disable-next=ansible-bad-function
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=False,
    )
    if done.returncode:
        told = done.stdout.decode("utf-8", "replace").strip()
        raise Trouble(f"{' '.join(argv[:2])} … failed: {told[-300:]}")


def admitted(own: str, projects: str, blocked: bool) -> List[str]:
    """Return the public keys whose owners the metadata let in for good, as administrators."""
    found = []
    for line in [*own.splitlines(), *([] if blocked else projects.splitlines())]:
        key = line.partition(":")[2].split()
        # Google's own form is for keys that end one day.
        if len(key) >= 2 and "google-ssh" not in key:
            found.append(" ".join(key[:2]))
    return list(dict.fromkeys(found))


def verify(text: str, signature: str, keys: List[str]) -> None:
    """See that one of the keys has signed a text."""
    RUNTIME.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RUNTIME) as folder:
        signers, signed = Path(folder) / "signers", Path(folder) / "signature"
        signers.write_text("".join(f"{SIGNER} {key}\n" for key in keys))
        signed.write_text(signature)
        argv = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", SIGNER]
        argv += ["-f", str(signers), "-s", str(signed)]
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(
            argv,
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        told = " ".join(done.stdout.decode("utf-8", "replace").split())
        raise Trouble(
            "what is published is signed by none of the keys that the metadata of this machine "
            f"admit, so it is not believed. Publish it again, by site.yml. ssh-keygen says: {told}"
        )


def pointer_of(source: Any, slice_name: str) -> Dict[str, Any]:
    """Fetch what says what the workers of this slice are to be."""
    # A request that waits for capacity carries this program for weeks: what it reads stays so.
    try:
        envelope = json.loads(source.read(f"slices/{slice_name}.json"))
    except NotThere as error:
        told = f"nobody has published yet what {slice_name} is to be. {error}"
        raise Trouble(told) from error
    blocked = metadata("instance/attributes/block-project-ssh-keys", "").lower() == "true"
    keys = admitted(
        metadata("instance/attributes/ssh-keys", ""),
        metadata("project/attributes/ssh-keys", ""),
        blocked,
    )
    verify(envelope["pointer"], envelope["signature"], keys)
    pointer: Dict[str, Any] = json.loads(envelope["pointer"])
    if pointer["slice"] != slice_name:
        raise Trouble(f"what is published for {slice_name} is of {pointer['slice']}")
    return pointer


def agent_of(source: Any, name: str) -> Path:
    """Have the agent unpacked, as controllers leave it, too."""
    path = AGENTS / f"agent-{name}"
    if not path.is_dir():
        data = source.read(f"files/{name}")
        found = hashlib.sha256(data).hexdigest()
        if found != name:
            raise Trouble(f"files/{name} is {found}: somebody changed it, so it is not used")
        AGENTS.mkdir(mode=0o755, parents=True, exist_ok=True)
        part = Path(f"{path}.{os.getpid()}")
        zipfile.ZipFile(io.BytesIO(data)).extractall(part)
        os.sync()
        part.rename(path)
    return path


def once(config: Mapping[str, Any]) -> None:
    """Try it once."""
    source = source_of(config["place"])
    try:
        pointer = pointer_of(source, config["slice"])
        path = agent_of(source, pointer["agent"])
        start = (
            "import sys; sys.path.insert(0, sys.argv[1]); "
            "from tpu_fleet_apply.boot import main; sys.exit(main(sys.argv[2]))"
        )
        words = json.dumps({"place": config["place"], "pointer": pointer})
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-S", "-c", start, str(path), words],
            stdin=subprocess.DEVNULL,
            check=False,
        )
    finally:
        if isinstance(source, Share):
            source.close()
    if done.returncode:
        raise Told("it did not end well: see above")


def read_status() -> Dict[str, Any]:
    """Return how far this machine is; nothing where nobody has begun."""
    try:
        found: Dict[str, Any] = json.loads(STATUS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def note(state: str, **more: Any) -> None:
    """Write down how far this machine is."""
    STATUS.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = STATUS.with_name(f".{STATUS.name}.{os.getpid()}")
    part.write_text(json.dumps({"state": state, "at": time.time(), **more}), encoding="utf-8")
    part.replace(STATUS)


def note_why(why: str) -> None:
    """Write down what is in the way; what was begun stays begun, and has to be ended."""
    state = read_status().get("state", "")
    note(state if state in BEGUN else "waiting", why=why)


def say(text: str) -> None:
    """Write a line of the log."""
    sys.stdout.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stdout.flush()


def is_over() -> bool:
    """Tell whether there is nothing to do: it was done, or a controller does it."""
    state = read_status().get("state", "")
    return state in OVER or (KNOWN.exists() and state not in BEGUN)


def main(config: Mapping[str, Any]) -> int:
    """Try until it is done."""
    pause, told = PAUSE, ""
    while not is_over():
        try:
            once(config)
        except (Trouble, OSError, ValueError, KeyError) as error:
            if str(error) != told:
                say(f"not yet: {error or type(error).__name__}")
            told = str(error)
            if not isinstance(error, Told):
                note_why(str(error))
            time.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - that not all ask at once
            pause = min(pause * 2, LONGEST_PAUSE)
    if read_status().get("state") not in OVER:
        note("left", why="a controller sets this machine up")
    say("nothing to do (any more)")
    return 0


def _to_log() -> None:
    LOG.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if LOG.exists() and LOG.stat().st_size > LOG_BYTES:
        LOG.replace(LOG.with_name(f"{LOG.name}.1"))
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    for number in (1, 2):
        os.dup2(log, number)


if __name__ == "__main__":
    _to_log()
    raise SystemExit(main(json.loads(sys.argv[1])))
