"""Run Ansible's programs in processes that begin with its modules, and this collection's, imported.

Half of what a small playbook costs is the start of `ansible-playbook`. Here a process that has read
all that code waits, and each command is a fork of it, which calls the same function as the program
does, with the arguments, environment and folder of that command. What Ansible reads of these while
it imports is read again, or is the same for all forks of one process: variables that are not in
CHANGING have a process of their own for each of their values.

For tests that look at what a playbook does. Those about the programs themselves, their signals and
their terminals start them; so does every stage that CI leaves out, by the variable STARTED.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STARTED = "TPU_FLEET_TESTS_START_ANSIBLE"
# What is called, by the name of the program.
PROGRAMS = {
    "ansible-inventory": "ansible.cli.inventory",
    "ansible-playbook": "ansible.cli.playbook",
}
# Variables of which nothing is kept that was read while importing.
CHANGING = (
    *("CLOUDSDK_", "GITHUB_", "GOOGLE_", "HOSTILE_"),
    *("MOLECULE_", "PYTEST_", "TPU_FLEET_"),
)
CHANGING_WHOLE = (
    *("ANSIBLE_HOME", "ANSIBLE_INVENTORY", "ANSIBLE_LOCAL_TEMP"),
    *("GH_TOKEN", "HOME", "OLDPWD", "PATH", "PWD", "TMPDIR"),
)
# What most playbooks import, beside all plugins of the collection.
USUAL = (
    *PROGRAMS.values(),
    "ansible.executor.process.worker",
    "ansible.plugins.action.normal",
    "ansible.plugins.callback.default",
    "ansible.plugins.connection.local",
    "ansible.plugins.connection.ssh",
    "ansible.plugins.strategy.linear",
    # With what it says of each of its plugins: three hundred kilobytes of YAML.
    "ansible_collections.ansible.builtin",
)
COLLECTION = "ansible_collections.tpu.fleet.plugins"


def run_ansible(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    limit: float = 300,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input; return what it printed, and how it ended.

    Together: what it prints as errors stands between the rest. A program that is not one of
    Ansible's is started, and so are these where the environment says so.
    """
    if words[0] in PROGRAMS:
        if STARTED not in os.environ:
            return _warm(env, cwd).run(words, env, cwd, limit, together)
        words = (str(BIN / words[0]), *words[1:])
    return subprocess.run(
        words,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        text=True,
        errors="surrogateescape",
        timeout=limit,
        check=False,
    )


def _kept(env: Mapping[str, str], cwd: Path) -> str:
    """Return what all forks of one process have in common."""
    settings = cwd / "ansible.cfg"
    known = {
        name: value
        for name, value in env.items()
        if not name.startswith(CHANGING) and name not in CHANGING_WHOLE
    }
    return json.dumps([sorted(known.items()), str(settings) if settings.exists() else ""])


class Warm:
    """The process of which commands are forks: one at a time."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            (sys.executable, __file__),
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        limit: float,
        together: bool,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a fork; end it after so many seconds."""
        with self._lock, tempfile.TemporaryDirectory(prefix="warm-") as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            err.touch()
            files = {"out": str(out), "err": str(out if together else err)}
            pid = self._ask({"words": words, "env": dict(env), "cwd": str(cwd), **files})
            late = threading.Event()

            def end() -> None:
                late.set()
                os.kill(pid, signal.SIGKILL)

            timer = threading.Timer(limit, end)
            timer.start()
            code = self._answer()
            timer.cancel()
            printed = [path.read_text(errors="surrogateescape") for path in (out, err)]
        if late.is_set():
            raise subprocess.TimeoutExpired(words, limit, *printed)
        return subprocess.CompletedProcess(words, code, *printed)

    def _ask(self, question: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, f"the process with Ansible ended: {self._process.wait()}"
        return int(answer)

    def end(self) -> None:
        """End the process; its forks have ended."""
        self._process.communicate()


_waiting: dict[str, Warm] = {}
_starting = threading.Lock()


def _warm(env: Mapping[str, str], cwd: Path) -> Warm:
    key = _kept(env, cwd)
    with _starting:
        if key not in _waiting:
            _waiting[key] = Warm(env, cwd)
            atexit.register(_waiting[key].end)
        return _waiting[key]


def _import_all() -> None:
    from ansible import constants
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.path import cleanup_tmp_file

    init_plugin_loader()
    plugins = (
        f"{COLLECTION}.{kind}.{path.stem}"
        for kind in ("action", "callback", "inventory")
        for path in sorted((ROOT / "plugins" / kind).glob("[!_]*.py"))
    )
    for name in (*USUAL, *plugins):
        importlib.import_module(name)
    _read_plugins()
    # Each command makes this folder for itself, and removes it.
    atexit.unregister(cleanup_tmp_file)
    shutil.rmtree(vars(constants)["DEFAULT_LOCAL_TMP"])
    # Each command does this once more, which changes nothing.
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")


def _read_plugins() -> None:
    """Read what each playbook reads of plugins: their code, and which settings they have.

    Those of variables are no part of it: Ansible takes them for read then, and uses none.
    """
    from ansible import constants
    from ansible.plugins import loader

    for kind in ("become", "callback", "connection", "shell"):
        list(getattr(loader, f"{kind}_loader").all(class_only=True))
    for name in constants.config.get_config_value("INVENTORY_ENABLED"):
        loader.inventory_loader.get(name)


def _read_settings_once() -> None:
    """Let the list of Ansible's settings be read once; how they are set is read each time."""
    from ansible import constants
    from ansible.config.manager import ConfigManager

    read = functools.cache(constants.config._read_config_yaml_file)
    # In place of Ansible's own method, as its class reads the list for each of its objects; and
    # Ansible gives neither of them types.
    ConfigManager._read_config_yaml_file = lambda _self, path: read(path)  # type: ignore[method-assign]
    ConfigManager()  # type: ignore[no-untyped-call]


def _read_settings_again() -> None:
    """Read Ansible's settings as importing it does, for all who have them already."""
    from ansible import constants

    config = constants.config
    of_plugins = config._plugins
    importlib.reload(constants)
    vars(config).update(vars(constants.config), _plugins=of_plugins)
    vars(constants)["config"] = config


def _share_payloads(folder: str) -> None:
    """Find modules as they were packed for an earlier command, and keep those that are now."""
    from ansible import constants

    Path(vars(constants)["DEFAULT_LOCAL_TMP"], "ansiballz_cache").symlink_to(folder)


def _become(asked: dict[str, Any], payloads: str) -> None:
    """Be the command, until it exits."""
    os.setsid()
    for number, path in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    words = asked["words"]
    sys.argv = [str(BIN / words[0]), *words[1:]]
    tempfile.tempdir = None
    _read_settings_again()
    _share_payloads(payloads)
    importlib.import_module(PROGRAMS[words[0]]).main()


def main() -> None:
    """Import Ansible; run what is asked on standard input, in forks of this process."""
    # As a program of this environment has it.
    sys.path[0] = str(BIN)
    _import_all()
    _read_settings_once()
    # No fork looks through what all have.
    gc.collect()
    gc.freeze()
    asking, answering = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # Nothing that a fork starts holds these, and nothing that Ansible prints gets into the answers.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    payloads = tempfile.mkdtemp(prefix="warm-payloads-")
    os.chdir("/")
    for line in asking:
        pid = os.fork()
        if pid == 0:
            asking.close()
            answering.close()
            _become(json.loads(line), payloads)
        print(pid, file=answering, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, file=answering, flush=True)
    shutil.rmtree(payloads)


if __name__ == "__main__":
    main()
