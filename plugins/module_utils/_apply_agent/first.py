# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program in the startup script of a machine that sets itself up at boot.

It fetches what was published for the machine, from a bucket or a share, and starts the agent that
comes with it. Because others may write there, the published pointer must be signed with a key in
the machine's metadata, and all other files are checked by their hash. It tries again, at growing
intervals, until the setup is done. It needs Python 3.8 and ssh-keygen, and no other file.
"""

from __future__ import annotations

import functools
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
# Seconds to wait for an answer.
PATIENCE = 60.0
# States in which this machine has begun the setup and has to finish it.
BEGUN = ("begun", "failed")
# States in which nothing is left to do: done, or left to a controller.
OVER = ("done", "left")


class Trouble(Exception):
    """The setup cannot be done now; the text has the reason and the remedy."""


class NotThere(Trouble):
    """No object or file of this name exists."""


class Told(Trouble):
    """The agent tried and failed; it has recorded the reason itself."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because a token must not be sent to another server."""

    def redirect_request(self, *_words: Any, **_more: Any) -> None:
        """Return no request."""


@functools.lru_cache(maxsize=1)
def _opener() -> urllib.request.OpenerDirector:
    """Return one without proxies, as only this machine's metadata and Google's APIs are read.

    Not made on import, because it reads the system's certificates, and controllers import this too.
    """
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def get(url: str, headers: Mapping[str, str]) -> bytes:
    """Return the content at a URL; raise Trouble with the reason if there is none."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http and https only
    try:
        with _opener().open(request, timeout=PATIENCE) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        told = error.read(500).decode("utf-8", "replace")
        kind = NotThere if error.code == 404 else Trouble
        raise kind(f"{url}: HTTP {error.code} {' '.join(told.split())[:300]}") from error
    except (OSError, ValueError) as error:
        raise Trouble(f"{url}: {error}") from error


def metadata(path: str, otherwise: Optional[str] = None) -> str:
    """Return a value from the metadata server; `otherwise` if it does not exist."""
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
        """Return the content of an object."""
        token = json.loads(metadata("instance/service-accounts/default/token"))["access_token"]
        url = self._base + urllib.parse.quote(self._prefix + name, safe="")
        return get(f"{url}?alt=media", {"Authorization": f"Bearer {token}"})


class Share:
    """A folder of an NFS server, mounted while something is read."""

    def __init__(self, place: Mapping[str, str]) -> None:
        self._source = f"{place['server']}:{place['export_path']}"
        self._point = RUNTIME / "self-setup-share"

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
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
        # A soft mount does not hang while the server is away; the main loop tries again.
        _run("mount", "-t", "nfs", "-o", "ro,soft,nosuid,nodev", self._source, str(self._point))

    def close(self) -> None:
        """Unmount the share, if it is mounted."""
        if os.path.ismount(self._point):
            _run("umount", "-l", str(self._point))


def source_of(place: Mapping[str, str]) -> Any:
    """Return the bucket or share with the published files."""
    return Bucket(place) if place.get("bucket") else Share(place)


def _run(*argv: str) -> None:
    # There is no module here whose run_command could be called.
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
    """Return the public keys that the metadata admit, without end, as administrators."""
    found = []
    for line in [*own.splitlines(), *([] if blocked else projects.splitlines())]:
        key = line.partition(":")[2].split()
        # Keys in Google's own form have an end.
        if len(key) >= 2 and "google-ssh" not in key:
            found.append(" ".join(key[:2]))
    return list(dict.fromkeys(found))


def verify(text: str, signature: str, keys: List[str]) -> None:
    """Raise Trouble unless one of the keys has signed the text."""
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
            "the published pointer is not signed with a key in this machine's metadata, so it is "
            f"not used. Publish it again with site.yml. ssh-keygen says: {told}"
        )


def pointer_of(source: Any, slice_name: str, fleet: Mapping[str, str]) -> Dict[str, Any]:
    """Return the published pointer, which has the wishes for the workers of this slice.

    It names the slice and its fleet: with one key for two fleets, the pointer of one is no order
    for a slice of the same name in the other, though every writer of this place can put it there.
    """
    # A queued request carries this program for weeks, so the format that it reads must not change.
    try:
        envelope = json.loads(source.read(f"slices/{slice_name}.json"))
    except NotThere as error:
        told = f"nothing is published for {slice_name} yet. {error}"
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
        raise Trouble(f"what is published for {slice_name} belongs to {pointer['slice']}")
    theirs = pointer.get("fleet")
    if theirs != fleet:
        told = " in project ".join(f"{name}" for name in (fleet["owner"], fleet["project"]))
        raise Trouble(
            f"what is published for {slice_name} belongs to another fleet ({theirs}) than this "
            f"machine ({told}), so it is not used. Publish it again with site.yml"
        )
    return pointer


def agent_of(source: Any, name: str) -> Path:
    """Unpack the agent, to where controllers unpack it too; return its folder."""
    path = AGENTS / f"agent-{name}"
    if not path.is_dir():
        data = source.read(f"files/{name}")
        found = hashlib.sha256(data).hexdigest()
        if found != name:
            raise Trouble(f"files/{name} has the hash {found}: it was changed, so it is not used")
        AGENTS.mkdir(mode=0o755, parents=True, exist_ok=True)
        part = Path(f"{path}.{os.getpid()}")
        zipfile.ZipFile(io.BytesIO(data)).extractall(part)
        os.sync()
        part.rename(path)
    return path


def once(config: Mapping[str, Any]) -> None:
    """Try the setup once."""
    source = source_of(config["place"])
    try:
        pointer = pointer_of(source, config["slice"], config["fleet"])
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
        raise Told("the setup failed: see above")


def read_status() -> Dict[str, Any]:
    """Return the recorded state of the setup; empty if it was not begun."""
    try:
        found: Dict[str, Any] = json.loads(STATUS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def note(state: str, **more: Any) -> None:
    """Record the state of the setup."""
    STATUS.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = STATUS.with_name(f".{STATUS.name}.{os.getpid()}")
    part.write_text(json.dumps({"state": state, "at": time.time(), **more}), encoding="utf-8")
    part.replace(STATUS)


def note_why(why: str) -> None:
    """Record a reason for waiting; a setup that was begun keeps its state."""
    state = read_status().get("state", "")
    note(state if state in BEGUN else "waiting", why=why)


def say(text: str) -> None:
    """Write a line to the log."""
    sys.stdout.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stdout.flush()


def is_over() -> bool:
    """Return whether nothing is left to do, or a controller does it."""
    state = read_status().get("state", "")
    return state in OVER or (KNOWN.exists() and state not in BEGUN)


def main(config: Mapping[str, Any]) -> int:
    """Try until nothing is left to do; return the exit code."""
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
            time.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - not all machines at once
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
