"""The fleet of the test: alice and carol train on one worker, and mallory has one of everything."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from fleet import NOTHING

HOST = "shared"
ALICE, MALLORY, CAROL = 2001, 2002, 2003
HOME = "/home/mallory"
# Carol's board listens there, and the program of her run that needs a chip at the port after PORT.
BOARD, PORT = 6007, 21700
# Where programs of mallory's note who runs them.
CANARY = "/srv/canary/ran"
# Only root reads it: nothing of it may turn up where mallory reads, or in what is printed.
ROOTS_SECRET = "/srv/roots/secret"

COUNT = """
import os, pathlib, time
folder = pathlib.Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"])
saved = folder / "step"
step = int(saved.read_text()) if saved.exists() else 0
while True:
    step += 1
    saved.with_suffix(".new").write_text(str(step))
    saved.with_suffix(".new").replace(saved)
    print("step", step, "loss 0", flush=True)
    time.sleep(0.5)
"""
# Alice's: her program notes every signal that only she may send it.
VICTIM = f"""
import os, signal
def note(number, frame):
    with open({CANARY!r}, "a") as file:
        file.write("%d was sent signal %d\\n" % (os.getuid(), number))
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGURG, 59):
    signal.signal(number, note)
{COUNT}"""
# Carol's: it listens where jax.distributed.initialize does, and needs a chip.
CHIPS = f"""
import os, socket
host, port = os.environ["TPU_FLEET_COORDINATOR"].rsplit(":", 1)
listens = socket.create_server(("", int(port)))
{COUNT}"""
# Mallory's: it waits for the signal to save, and then for ever.
ASKED = """
import signal, time
signal.signal(signal.SIGUSR1, lambda number, frame: None)
print("step 1 loss 0", flush=True)
while True:
    time.sleep(1)
"""
# What a board's program needs of TensorBoard, absl and werkzeug; its page is the user's number.
BOARD_PROGRAM = """\
import argparse


class TensorBoardServer:
    pass


class TensorBoard:
    def __init__(self, plugins, server_class):
        self.server_class = server_class

    def configure(self, words):
        parser = argparse.ArgumentParser()
        parser.add_argument("--port", type=int)
        return parser.parse_known_args(words[1:])[0]

    def main(self, flags):
        server = self.server_class(None, flags)
        server.print_serving_message()
        server.serve_forever()
"""
SERVING = """\
import http.server
import os
import socketserver


class WSGIRequestHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served by user %d" % os.getuid())

    def address_string(self):
        return "a UNIX socket"


def make_server(host, port, app, threaded, request_handler):
    path = host.removeprefix("unix://")
    return socketserver.ThreadingUnixStreamServer(path, request_handler)
"""
APP = """\
import sys


def run(main, flags_parser):
    main(flags_parser(sys.argv))
"""
# Builds without a package from any index.
BACKEND = """\
import pathlib
import zipfile

NAME = "tensorboard-1.0-py3-none-any.whl"
INFO = "tensorboard-1.0.dist-info"


def build_editable(folder, config_settings=None, metadata_directory=None):
    files = {
        "tensorboard.pth": str(pathlib.Path.cwd()),
        INFO + "/METADATA": "Metadata-Version: 2.1\\nName: tensorboard\\nVersion: 1.0\\n",
        INFO + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        INFO + "/entry_points.txt": "[console_scripts]\\ntensorboard = absl.app:run\\n",
    }
    record = "".join(name + ",,\\n" for name in files) + INFO + "/RECORD,,\\n"
    with zipfile.ZipFile(pathlib.Path(folder) / NAME, "w") as wheel:
        for name, text in {**files, INFO + "/RECORD": record}.items():
            wheel.writestr(name, text)
    return NAME


build_wheel = build_editable
"""
TREE = {
    "pyproject.toml": """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tensorboard"
version = "1.0"
""",
    "backend.py": BACKEND,
    "requirements.txt": "idna\n",
    "tensorboard/__init__.py": "",
    "tensorboard/default.py": "def get_plugins(): return []\n",
    "tensorboard/main_lib.py": "def global_init(): pass\n",
    "tensorboard/program.py": BOARD_PROGRAM,
    "absl/__init__.py": "",
    "absl/app.py": APP,
    "werkzeug/__init__.py": "",
    "werkzeug/serving.py": SERVING,
}
DOTFILES = {".vimrc": "set number\n", ".config/tool/settings": "colour = yes\n"}


def write_files(folder: Path, files: dict[str, str]) -> str:
    """Write files below a folder of the controller; return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def declared(folder: Path, apply: str) -> dict[str, Any]:
    """Return the fleet file; what comes from the controller lies below folder."""
    here = {"slices": [HOST]}
    tree = write_files(folder / "tree", TREE)
    return {
        **NOTHING,
        "fleet_apply": apply,
        "fleet_apply_every": "24h",
        "fleet_slices": [
            {"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"},
        ],
        "fleet_base_packages": ["sudo", "tmux", "tzdata", "python3-venv", "git"],
        "fleet_shell_packages": [],
        "fleet_users": [
            {"name": name, "uid": uid, "keys": ["{{ fleet_ssh_public_key }}"]}
            for name, uid in (("alice", ALICE), ("mallory", MALLORY), ("carol", CAROL))
        ],
        "fleet_git_identities": [
            {"user": "mallory", "name": "Mallory", "email": "mallory@example.org", "lfs": False}
        ],
        "fleet_git_keys": [
            {"name": "own", "users": ["mallory"], "source": "machine", "host": "github.com"}
        ],
        "fleet_google_secrets_endpoint": "http://169.254.169.254",
        "fleet_google_secrets_project": "local-project",
        "fleet_secrets": [
            {
                "name": "hers",
                "user": "mallory",
                "in_login_shell": True,
                "env": {"TOKEN": "token-of-mallory"},
                "files": [{"path": "~/.tool/key", "content": "key-of-mallory"}],
                "google_secrets": {"FROM_GOOGLE": "hers"},
            }
        ],
        "fleet_shells": [
            {
                "user": "mallory",
                "ohmyzsh": False,
                "dotfiles": {"local_path": write_files(folder / "dotfiles", DOTFILES)},
            }
        ],
        "fleet_code": [
            {
                "name": "hers",
                "user": "mallory",
                "path": f"{HOME}/tree",
                "local_path": tree,
            },
            {"name": "carols", "user": "carol", "path": "/home/carol/tree", "local_path": tree},
        ],
        "fleet_compile_bytecode": False,
        "fleet_venvs": [
            {
                "name": "hers",
                "path": f"{HOME}/venv",
                "user": "mallory",
                "python": "3.11",
                "requirements": "hers/requirements.txt",
                "editable": ["hers"],
                "activate_for": ["mallory"],
            },
            {
                "name": "carols",
                "path": "/home/carol/venv",
                "user": "carol",
                "python": "3.11",
                "requirements": "carols/requirements.txt",
                "editable": ["carols"],
            },
        ],
        "fleet_tensorboard_start_timeout": "30s",
        "fleet_boards": [
            {
                **here,
                "name": "hers",
                "user": "mallory",
                "port": 6006,
                "venv": "hers",
                "logs": {"all": f"{HOME}/checkpoints"},
                "secrets": ["hers"],
            },
            {
                **here,
                "name": "carols",
                "user": "carol",
                "port": BOARD,
                "venv": "carols",
                "logs": {"all": "/home/carol/checkpoints"},
            },
        ],
        "fleet_runs": [
            {
                **here,
                "name": "count",
                "user": "alice",
                "command": shlex.join(["exec", "python3", "-uc", VICTIM]),
                "checkpoint_dir": "/home/alice/checkpoints/count",
                "needs_tpu": False,
            },
            {
                **here,
                "name": "chips",
                "user": "carol",
                "command": shlex.join(["exec", "python3", "-uc", CHIPS]),
                "checkpoint_dir": "/home/carol/checkpoints/chips",
                "port": PORT,
                "grace": "5s",
            },
            {
                **here,
                "name": "hers",
                "user": "mallory",
                "venv": "hers",
                "code": "hers",
                "secrets": ["hers"],
                "command": shlex.join(["exec", "python", "-uc", COUNT]),
                "checkpoint_dir": f"{HOME}/checkpoints/hers",
                "checkpoint_command": "touch $TPU_FLEET_CHECKPOINT_DIR/saved",
                "checkpoint_lead": "1000000s",
                "grace": "5s",
                "results": ["results", f"{HOME}/checkpoints/hers/step"],
                "hang_after": "20s",
                "retries": 1000,
                "fail_fast_window": "0s",
                "needs_tpu": False,
                "env": {
                    "PATH": f"{HOME}/evil:/usr/local/bin:/usr/bin:/bin",
                    "LD_PRELOAD": f"{HOME}/evil/canary.so",
                    "PYTHONPATH": f"{HOME}/evil",
                },
            },
            {
                **here,
                "name": "asks",
                "user": "mallory",
                "command": shlex.join(["exec", "python3", "-uc", ASKED]),
                "checkpoint_dir": f"{HOME}/checkpoints/asks",
                "checkpoint_signal": "USR1",
                "checkpoint_lead": "1000000s",
                "grace": "5s",
                "hang_after": "15s",
                "retries": 1000,
                "fail_fast_window": "0s",
                "needs_tpu": False,
            },
        ],
    }
