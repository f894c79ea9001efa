# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The notebooks of a host as services. No I/O."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..._host.services import socket_of
from .. import services
from ..venv_paths import venv_path

Notebook = Mapping[str, Any]
Venvs = Sequence[Mapping[str, Any]]
_IPYKERNEL_REMEDY = "Add ipykernel to the packages of this venv"
# Environment variables that keep the frameworks from using the chip.
_ON_THE_CPU = {"JAX_PLATFORMS": "cpu", "PJRT_DEVICE": "CPU"}
# The debugger of a kernel listens on a TCP port without a password: through it, every user of the
# machine could run code as the owner of the notebook.
_PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/debugger-extension": True}}


def plan(variables: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notebooks of a host as they are declared, and the services that they become."""
    packages = [
        f"jupyterlab=={variables['notebook_server_jupyterlab_version']}",
        f"ipykernel=={variables['notebook_server_ipykernel_version']}",
        *variables["notebook_server_packages"],
    ]
    return services.plan("notebook_server", "notebooks", variables, defaults, packages, _service)


def _service(entry: Notebook, venvs: Venvs, own: str) -> dict[str, Any]:
    name = f"notebook-{entry['name']}"
    venv = venv_path(entry.get("venv"), venvs) or own
    folder = entry.get("path") or ""
    generated = entry.get("token") == "generated"
    kernels = entry.get("kernels") or [declared["name"] for declared in venvs]
    return {
        **services.of_entry(entry, venv),
        "name": name,
        "description": f"JupyterLab {entry['name']}",
        "command": _command(entry, venv, socket_of(name)),
        "proxied": True,
        "before_start": [] if generated else [["/bin/sh", "-c", 'test -n "$JUPYTER_TOKEN"']],
        "workdir": folder or "~",
        "folders": [folder] if folder else [],
        "environment": {
            "JUPYTER_CONFIG_PATH": f"/etc/tpu-fleet/services/{name}.d",
            "JUPYTER_PATH": f"/etc/tpu-fleet/services/{name}.d",
            "JUPYTER_RUNTIME_DIR": f"/run/tpu-fleet/{name}",
            **services.search_path(venv),
            **(
                {"JUPYTER_TOKEN_FILE": f"/etc/tpu-fleet/services/{name}.token"} if generated else {}
            ),
            **entry["env"],
        },
        "files": [
            {"name": "labconfig/page_config.json", "content": _json(_PAGE_CONFIG)},
            *(file for kernel in kernels for file in _kernel_files(kernel, entry, venvs)),
        ],
        "needs": [
            *services.needs(venv, "jupyter-lab", "jupyterlab", entry["secrets"]),
            # Venvs with ipykernel become kernels; those that the notebook names must have it.
            *(
                {"path": _ipykernel(kernel, venvs), "remedy": _IPYKERNEL_REMEDY}
                for kernel in entry.get("kernels") or ()
            ),
        ],
        "keep_token": generated,
        "facts": {"kind": "notebook", "url_path": "/lab", "login": True},
    }


def _command(entry: Notebook, venv: str, socket: str) -> list[str]:
    command = [
        f"{venv}/bin/python",
        *("-m", "jupyterlab", "--no-browser"),
        f"--ServerApp.sock={socket}",
        "--ServerApp.sock_mode=0600",
        "--ServerApp.allow_remote_access=False",
        # On a TCP port of the loopback address every user could read what kernels print.
        "--KernelManager.transport=ipc",
    ]
    if entry.get("cull_idle_after"):
        command += [
            f"--MappingKernelManager.cull_idle_timeout={entry['cull_idle_after']}",
            "--MappingKernelManager.cull_connected=True",
        ]
    return command


def _ipykernel(kernel: str, venvs: Venvs) -> str:
    """Return the pattern of the package that makes an environment a kernel."""
    return f"{venv_path(kernel, venvs)}/lib/python3*/site-packages/ipykernel"


def _kernel_files(kernel: str, entry: Notebook, venvs: Venvs) -> list[dict[str, str]]:
    """Return Jupyter's description of an environment, and one without the chip if it uses one."""
    frameworks = {venv["name"]: venv.get("framework") for venv in venvs}
    twice = entry["cpu_kernels"] and bool(frameworks.get(kernel))
    label = posixpath.basename(kernel) if kernel.startswith("/") else kernel
    folder = re.sub("[^a-z0-9._-]", "-", label.lower())
    python = f"{venv_path(kernel, venvs)}/bin/python"
    kinds: list[tuple[str, str, Mapping[str, str]]] = [(folder, label, {})]
    if twice:
        kinds.append((f"{folder}-cpu", f"{label} (without the TPU)", _ON_THE_CPU))
    return [
        {
            "name": f"kernels/{name}/kernel.json",
            "content": _kernel_spec(python, shown, environment),
            "if_found": _ipykernel(kernel, venvs),
        }
        for name, shown, environment in kinds
    ]


def _kernel_spec(python: str, shown: str, environment: Mapping[str, str]) -> str:
    spec = {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": shown,
        "language": "python",
        "env": environment,
    }
    return _json(spec)


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=4, sort_keys=True, separators=(",", ": ")) + "\n"
