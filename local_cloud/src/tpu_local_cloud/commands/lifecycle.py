"""Starts and ends a local cloud: its server, its machines and its state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import requests

from ..machines import image
from ..machines.base import MachineError
from ..machines.container import ContainerMachines
from ..machines.host import Progress
from ..machines.layout import Layout, read_json, write_json
from ..machines.patience import wait_for
from .called import called
from .other_apis import OTHER_APIS

# Below this path the server has nothing, and says so.
ABSENT = "_absent"
SERVER = "tpu_local_cloud.serve.server"
DEFAULT_PORT = 8470
START_LIMIT = 60.0
MIB = 1 << 20
# Free disk space without which no server is started.
LEAST_SPACE = 16 * MIB


class CloudError(RuntimeError):
    """The cloud cannot do what was requested; the message is for people."""


def default_state_dir() -> Path:
    """Return the directory of the cloud's state."""
    chosen = os.environ.get("TPU_FLEET_CLOUD_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(platformdirs.user_state_dir("tpu-fleet")) / "cloud"


@dataclass(frozen=True)
class Cloud:
    """One local cloud, up or not."""

    state_dir: Path

    @property
    def config_file(self) -> Path:
        """Return the server's configuration."""
        return self.state_dir / "config.json"

    @property
    def config(self) -> dict[str, Any] | None:
        """Return the server's configuration, if there is a cloud."""
        return read_json(self.config_file)

    @property
    def endpoint(self) -> str:
        """Return the API's address; for a cloud of another user, the default one."""
        config = self.config
        if config:
            return f"http://{config['host']}:{config['port']}/"
        named = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU")
        return named or f"http://127.0.0.1:{DEFAULT_PORT}/"

    @property
    def grpc_endpoint(self) -> str:
        """Return the API's gRPC address, if it is served."""
        config = self.config or {}
        port = config.get("grpc_port")
        return f"{config['host']}:{port}" if port else ""

    @property
    def authority(self) -> Path:
        """Return the certificate to trust for storage.googleapis.com; there is one with TLS."""
        return self.state_dir / "tls" / "ca.pem"

    def server_pid(self) -> int | None:
        """Return the process id of the running server."""
        try:
            candidates = [Path("/proc") / (self.state_dir / "server.pid").read_text().strip()]
        except FileNotFoundError:
            candidates = list(Path("/proc").glob("[0-9]*"))
        # Process ids are reused, so the process must be one that serves this cloud.
        mark = b"--config\0" + str(self.config_file).encode() + b"\0"
        for folder in candidates:
            with suppress(OSError):
                if mark in (folder / "cmdline").read_bytes() and self._may_serve(folder):
                    return int(folder.name)
        return None

    def _may_serve(self, process: Path) -> bool:
        """Return whether a process is no other user's, who can give it any command line."""
        trusted = {0, os.geteuid()}
        with suppress(OSError):
            trusted.add(self.config_file.stat().st_uid)
        lines = (process / "status").read_text(errors="replace").splitlines()
        users = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
        return bool(users) and set(users) <= set(map(str, trusted))

    def control(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request to the server's control interface."""
        url = f"{self.endpoint.rstrip('/')}/_cloud/{path}"
        try:
            answer = requests.request(method, url, json=body, timeout=300)
        except requests.ConnectionError as error:
            raise CloudError(
                f"no local cloud answers at {self.endpoint}: start it with `{called()} up`"
            ) from error
        if answer.status_code == requests.codes.bad_request:
            # The server says what is wrong with the words of the command line.
            raise CloudError(_message(answer))
        if not answer.ok:
            raise CloudError(f"{url}: HTTP {answer.status_code}: {_message(answer)}")
        return answer.json() if answer.content else None

    def wait_for(self, operation: str) -> None:
        """Wait until an operation of either API is over; raise CloudError when it failed."""
        version = "compute/v1" if "/zones/" in operation else "v2"
        url = f"{self.endpoint.rstrip('/')}/{version}/{operation}"
        while True:
            answer = requests.get(url, timeout=60).json()
            if answer.get("done") or answer.get("status") == "DONE" or "error" in answer:
                break
            time.sleep(0.5)
        if "error" in answer:
            told = answer["error"].get("errors", [{}])[0]
            raise CloudError(answer["error"].get("message") or told["message"])


def _message(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:500]


def up(cloud: Cloud, config: dict[str, Any], wanted_image: str, progress: Progress) -> bool:
    """Start the cloud; return whether there was anything to do."""
    existing = cloud.config
    if existing:
        for key in ("hosts", "port", "grpc_port", "tls_port", "project"):
            if existing.get(key) != config.get(key):
                raise CloudError(
                    f"the cloud in {cloud.state_dir} exists with {key} {existing.get(key)}, not "
                    f"{config[key]}: run `{called()} down` first, or choose another directory "
                    "by TPU_FLEET_CLOUD_DIR"
                )
        if cloud.server_pid() is not None and _healthy(cloud):
            return False
    elif cloud.state_dir.exists() and any(cloud.state_dir.iterdir()):
        raise CloudError(f"{cloud.state_dir} contains something that is not a local cloud")
    for name in ("port", "grpc_port", "tls_port"):
        if config.get(name):
            _require_port(config["host"], config[name], f"--{name.replace('_', '-')}")
    _require_space(cloud.state_dir)
    # The configuration is written first, so that `down` can revert an incomplete `up`.
    write_json(cloud.config_file, config)
    if config["hosts"] == "container":
        ContainerMachines(cloud.state_dir).prepare(wanted_image, progress)
    progress("Starting the API server")
    _start_server(cloud)
    return True


def _require_port(host: str, port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CloudError(
                f"{host}:{port} cannot be used ({error.strerror}): choose another {option}"
            ) from error


def _require_space(state_dir: Path) -> None:
    """Raise if the server could not write its state, which would end it with a traceback."""
    there = next(folder for folder in (state_dir, *state_dir.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < LEAST_SPACE:
        raise CloudError(
            f"{there} has {free // MIB} MB of free disk space, and the state of the cloud needs "
            f"{LEAST_SPACE // MIB} MB: free some, or choose another directory by "
            "TPU_FLEET_CLOUD_DIR. What the cloud has saved there stays."
        )


def _healthy(cloud: Cloud) -> bool:
    try:
        cloud.control("GET", "state")
    except (CloudError, requests.RequestException):
        return False
    return True


def _start_server(cloud: Cloud) -> None:
    log = cloud.state_dir / "server.log"
    with log.open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", SERVER, "--config", str(cloud.config_file)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + START_LIMIT
    while not (cloud.server_pid() == process.pid and _healthy(cloud)):
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            what = "ended at once" if ended else f"did not answer within {START_LIMIT:g} s"
            with log.open() as lines:
                tail = "".join(deque(lines, maxlen=15))
            raise CloudError(f"the API server {what}; the end of {log}:\n{tail}")
        time.sleep(0.1)


def down(cloud: Cloud, keep_image: bool, progress: Progress) -> bool:
    """Remove the cloud with everything it created; return whether there was one."""
    layout = Layout(cloud.state_dir)
    traces = layout.home.exists() or layout.run_dir.exists()
    if cloud.config is None and not traces:
        return False
    progress("Stopping the API server")
    _stop_server(cloud)
    if traces or (cloud.config or {}).get("hosts") == "container":
        if os.geteuid() != 0:
            raise CloudError("the cloud has machines, so removing it needs root: use sudo")
        ContainerMachines(cloud.state_dir).destroy(progress)
        progress("Keeping the base image" if keep_image else "Removing the base image if unused")
        image.release(layout.cloud_id, keep_image)
    shutil.rmtree(cloud.state_dir, ignore_errors=True)
    return True


def _stop_server(cloud: Cloud) -> None:
    for number, patience in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        pid = cloud.server_pid()
        if pid is None:
            return
        try:
            os.kill(pid, number)
        except PermissionError as error:
            raise CloudError("the cloud belongs to another user: use sudo") from error
        except ProcessLookupError:
            return
        if wait_for(lambda: cloud.server_pid() is None, patience):
            return
    raise CloudError("the API server does not end")


def owners(environment: Mapping[str, str]) -> list[int]:
    """Return the users who may use a new cloud, including one who started it with sudo."""
    sudo = environment.get("SUDO_UID", "")
    return sorted({os.geteuid(), *([int(sudo)] if sudo.isdecimal() else [])})


def exports(cloud: Cloud) -> dict[str, str]:
    """Return the variables that point our tools, gcloud and Google's clients at the cloud."""
    config = cloud.config or {"project": "local-project"}
    endpoint = cloud.endpoint.rstrip("/") + "/"
    variables = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{endpoint}compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{endpoint}storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_OSLOGIN": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": endpoint,
        "STORAGE_EMULATOR_HOST": cloud.endpoint.rstrip("/"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": config["project"],
        "GOOGLE_CLOUD_PROJECT": config["project"],
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
    }
    if cloud.grpc_endpoint:
        variables["TPU_FLEET_CLOUD_GRPC_ENDPOINT"] = cloud.grpc_endpoint
    if cloud.config:
        variables["TPU_FLEET_CLOUD_DIR"] = str(cloud.state_dir)
    if cloud.authority.exists():
        variables["TPU_FLEET_CLOUD_CA"] = str(cloud.authority)
    return {**variables, **_elsewhere(endpoint)}


def _elsewhere(endpoint: str) -> dict[str, str]:
    """Return the variables by which gcloud asks the cloud for what only Google has."""
    return {
        f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": f"{endpoint}{ABSENT}/{name}/"
        for name in OTHER_APIS
    }


def as_json(data: Any) -> str:
    """Format data for people and programs."""
    return json.dumps(data, indent=2)


__all__ = ["Cloud", "CloudError", "MachineError", "default_state_dir", "down", "exports", "up"]
