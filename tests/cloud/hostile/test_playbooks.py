"""Workers in other hands in the playbooks: real ansible-playbook, answers of a seed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from hostile import DRILLED, controls, nonsense, poisoned, snapshot, spoilt, texts, written
from warm_ansible import run_ansible

ROOT = Path(__file__).resolve().parents[3]
SEED = int(os.environ.get("TPU_FLEET_HOSTILE_SEED", "20261123"))
# Workers in other hands, of a play in CI and at night: each costs a process for each task.
CASES, CASES_AT_NIGHT = 8, 24
HONEST = ("honest-first", "honest-last")
ASKED: list[int] = []

# What no plugin of ours can keep Ansible from printing, as docs/security.md says.
ANSIBLES_OWN = re.compile(
    r"^\[WARNING\]: Value for result key.*?^Values for result key .*?$", re.MULTILINE | re.DOTALL
)
CONTENT = hashlib.sha1(b'"content"').hexdigest()  # noqa: S324 - what fetch compares
RUN = {"run": "digits", "user": "alice", "state": "succeeded", "attempt": 1, "log_path": "/l"}
SERVICE = {
    "name": "notebook-alice",
    "user": "alice",
    "address": "127.0.0.1",
    "port": 8888,
    "kind": "notebook",
    "description": "JupyterLab",
    "url_path": "/lab",
    "enabled": True,
    "token_file": "/etc/tpu-fleet/services/notebook-alice.token",
}
STANDING = {
    "now": 1.0,
    "boot_id": "b",
    "set_up": True,
    "applied": "0123",
    "used": [],
    "runs": [{**RUN, "event": None, "tail": None}],
}
LEFT = {
    "runs": ["digits"],
    "user": "alice",
    "rsync": False,
    "left": [["", "/var/log/tpu-fleet/runs/digits", "run.log"], ["results/", "/home/a", "best"]],
    "missing": [],
}
KEYS = {"users": {"alice": {"keys": {"work": {"public": "ssh-ed25519 " + "A" * 60 + " alice"}}}}}
FINDING = {"check": "clock", "status": "ok", "says": "", "remedy": "", "subject": "", "case": ""}
DOCTOR = {
    "changed": False,
    "findings": [{**FINDING, "fix": ""}],
    "status": "ok",
    "fixed": [],
    "clock": {"started": 1.0, "synchronized": True, "container": ""},
    "compare": {
        "venvs": {"main": {"python": "3.12.1", "packages": {"numpy": "2.0"}}},
        "code": {"tree": "abc"},
        "runs": {"digits": {"definition": "d", "attempt": 1}},
    },
    "seconds": 0.1,
}
LOOKS = """
- hosts: tpu
  gather_facts: false
  tasks:
    - tpu.fleet.host_doctor:
        name: "{{ inventory_hostname }}"
      register: doctor_worker
      ignore_errors: true
    - tpu.fleet.drill:
        run: digits
      register: drilled
      ignore_errors: true
    - ansible.builtin.debug:
        msg: "{{ doctor_controller | tpu.fleet.doctor_report(answers) }}"
      run_once: true
      vars:
        doctor_controller:
          findings: []
          asked: "{{ asked_workers }}"
        told: "{{ groups.tpu | map('extract', hostvars, 'doctor_worker') }}"
        answers: "{{ dict(groups.tpu | zip(told)) }}"
"""


@pytest.fixture(scope="module", autouse=True)
def count() -> Iterator[None]:
    """Say how many cases there were, and by which seed."""
    yield
    told = f"\nnote: hostile answers to playbooks: {sum(ASKED)} cases, seed {SEED}\n"
    os.write(sys.__stdout__.fileno(), told.encode())


def of_run_info(data: bytes) -> bytes:
    """Write what the module run_info returns when this is its answer."""
    return json.dumps(
        {"changed": False, "answer": data.decode("utf-8", "surrogateescape")}
    ).encode()


def of_slurp(data: bytes) -> bytes:
    """Write what the module slurp returns for a file with this."""
    content = base64.b64encode(data).decode()
    return json.dumps({"content": content, "encoding": "base64", "source": "/f"}).encode()


class Controller:
    """A folder with a fleet whose workers answer as files say; so many of them are evil."""

    def __init__(self, folder: Path, cases: int) -> None:
        self.folder, self.canary = folder, folder / "canary"
        pairs = islice(product(string.ascii_lowercase, repeat=2), cases)
        self.evil = ["evil" + "".join(word) for word in pairs]
        self.names = [HONEST[0], *self.evil, HONEST[1]]
        # So many answer honestly, to come as far as the next question.
        self.half = 3 * cases // 4
        # More than so many of the others have to fail, or the seed makes too little of them.
        self.few = cases // 3
        for name in ("answers", "state", "victim", "home", "bin", "collected", "tmp"):
            (folder / name).mkdir()
        copytree(ROOT / "playbooks", folder / "playbooks")
        (folder / "playbooks/finish.yml").write_text(
            (ROOT / "playbooks/finish.yml").read_text().replace("  any_errors_fatal: true\n", "")
        )
        (folder / "playbooks/looks.yml").write_text(LOOKS)
        options = {"HostKeyAlias": "tpu.1.0", "StrictHostKeyChecking": "yes"}
        hosts = {
            name: {
                "ansible_host": name,
                "ansible_connection": "hostile",
                "ansible_become": False,
                "tpu_vm_name": "pair",
                "tpu_vm_ssh_options": options,
            }
            for name in self.names
        }
        variables = {
            "fleet_state_dir": str(folder / "state"),
            "fleet_results_dir": str(folder / "collected"),
            "fleet_ssh_user": "ops",
            "fleet_ssh_private_key_file": str(folder / "home/key"),
            "fleet_slices": [{"name": "pair", "on_finish": "stop"}],
            "fleet_git_keys": [{"name": "work", "users": ["alice"], "register": "user"}],
            "fleet_runs": [{"name": "digits", "results": ["best"]}],
            "fleet_mosh": {"target_tags": ["x"]},
            "asked_workers": [{"host": name, "slice": "pair"} for name in self.names],
        }
        groups = {
            "tpu": {"hosts": hosts},
            "tpu_leaders": {"hosts": {name: {} for name in self.names}},
        }
        inventory = {"all": {"vars": variables, "children": groups}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        self.before = snapshot(*self.kept)

    @property
    def kept(self) -> list[Path]:
        """Return the places that nothing may be written to."""
        own = ("answers", "state", "collected", "tmp")
        return [path for path in self.folder.iterdir() if path.name not in own]

    def answers(
        self,
        honest: Any,
        name: str = "",
        frame: Callable[[bytes], bytes] = lambda data: data,
        rest: int = 0,
    ) -> None:
        """Write what each worker answers when it is asked by a module or script of this name."""
        ASKED.append(len(self.evil[rest:]))
        end = f".{name}" if name else ""
        for host in (*HONEST, *self.evil[:rest]):
            (self.folder / f"answers/{host}{end}").write_bytes(frame(json.dumps(honest).encode()))
        for number, host in list(enumerate(self.evil))[rest:]:
            chance = random.Random(f"{SEED} {name} {honest} {number}")  # noqa: S311 - repeatable, not secret
            kind = chance.random()
            if kind < 0.1:
                data = nonsense(chance, self.canary)[1]
            elif kind < 0.2:
                data = frame(nonsense(chance, self.canary)[1])
            elif kind < 0.5:
                data = frame(json.dumps(poisoned(honest, chance, self.canary)).encode())
            elif kind < 0.7:
                data = frame(written(spoilt(honest, chance, self.canary)[1], chance))
            elif kind < 0.8:
                data = self.facts(json.loads(frame(json.dumps(honest).encode())))
            else:
                outer = json.loads(frame(json.dumps(honest).encode()))
                data = written(spoilt(outer, chance, self.canary)[1], chance)
            (self.folder / f"answers/{host}{end}").write_bytes(data)

    def facts(self, result: Any) -> bytes:
        """Let a result bring facts that are called like our variables."""
        evil = str(self.folder / "victim")
        options = {"ProxyCommand": f"touch {self.canary}"}
        named = {
            "fleet_state_dir": evil,
            "fleet_results_dir": evil,
            "collect_to": evil,
            "fleet_collect_to": evil,
            "tpu_vm_ssh_options": options,
            "ansible_connection": "local",
            "ansible_become": False,
            "fleet_collect_script": texts(self.canary)[0],
        }
        more = {"add_host": {"host_name": "new", "groups": ["tpu"]}, "ansible_facts": named}
        return json.dumps({**result, **more} if isinstance(result, dict) else result).encode()

    def play(self, book: str, *words: str) -> str:
        """Run a playbook on the workers; return what it printed, and see that no harm was done."""
        ours = {name: value for name, value in os.environ.items() if "ANSIBLE" not in name}
        done = run_ansible(
            (
                "ansible-playbook",
                *("-i", str(self.folder / "hosts.yml"), str(self.folder / "playbooks" / book)),
                *("--limit", "tpu", *words),
            ),
            {
                **ours,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
                "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection"),
                "ANSIBLE_PIPELINING": "1",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
                "ANSIBLE_FORKS": "8",
                "HOSTILE_ANSWERS": str(self.folder / "answers"),
                "ANSIBLE_HOME": str(self.folder / "tmp/ansible"),
                "HOME": str(self.folder / "home"),
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PWD": str(self.folder),
            },
            self.folder,
            limit=280,
        )
        assert "ERROR! " not in done.stderr, done.stderr[-2000:]
        recap = done.stdout.partition("PLAY RECAP")[2]
        for host in HONEST:
            assert re.search(rf"{host} .*failed=0", recap), "\n".join(
                re.findall(rf"{host}\].*(?:\n .*)*", done.stdout)
            )
        assert not self.canary.exists()
        assert snapshot(*self.kept) == self.before
        asked = (self.folder / "answers/asked").read_text()
        assert all(f"{name} " in asked for name in self.names)
        self.failed = {name for name in self.names if re.search(rf"{name} .*failed=[1-9]", recap)}
        said = done.stdout + done.stderr
        # Each with its name, and in our words or in Ansible's. What Ansible cannot print at all it
        # warns of, and names the worker in the recap.
        silent = [name for name in self.failed if not re.search(rf"\[{name}\]|{name}: ", said)]
        assert len(silent) <= said.count("failed for plugin 'default'"), silent
        assert controls(ANSIBLES_OWN.sub("", said)) == []
        return done.stdout + done.stderr


@pytest.fixture(params=[CASES, pytest.param(CASES_AT_NIGHT, marks=pytest.mark.night)])
def controller(request: pytest.FixtureRequest, tmp_path: Path) -> Controller:
    return Controller(tmp_path, request.param)


def test_services(controller: Controller) -> None:
    """The ssh configuration of the tunnels has nothing that a worker made up."""
    controller.answers([SERVICE], "services", of_run_info)
    controller.play("services.yml")
    written = controller.folder / "state/ssh_tunnels"
    text = written.read_text()
    assert controls(text) == []
    assert not re.search("(?i)proxycommand|touch", text)
    for name in HONEST:
        assert f"Host notebook-alice.{name}\n  LocalForward 127.0.0.1:8888" in text
        done = subprocess.run(
            ("ssh", "-G", "-F", written, name), check=True, capture_output=True, text=True
        )
        assert "proxycommand" not in done.stdout
    assert len(controller.failed) > controller.few


def test_status(controller: Controller) -> None:
    """The runs of the honest workers are shown."""
    controller.answers([RUN], "runs", of_run_info)
    said = controller.play("status.yml")
    assert said.count("digits: succeeded, attempt 1") >= len(HONEST)
    # Of some, one run is refused, and not the whole answer.
    assert len(controller.failed) + said.count("its status is not accepted") > controller.few


def test_collect(controller: Controller) -> None:
    """What runs left goes below the worker's folder, and nowhere else."""
    controller.answers(LEFT, "left", of_run_info)
    # The well-known ways out of a folder, whatever the seed has.
    up = "../../../victim/"
    for host, to in zip(
        controller.evil, (up, f"results/../{up}", f"{controller.folder}/victim/"), strict=False
    ):
        evil = {**LEFT, "left": [[to, "/srv", "authorized_keys"], ["", "/srv", f"{up}x"]]}
        (controller.folder / f"answers/{host}.left").write_bytes(
            of_run_info(json.dumps(evil).encode())
        )
    controller.answers("content", "slurp", of_slurp, controller.half)
    stat = {"stat": {"exists": True, "isdir": False, "checksum": CONTENT, "size": 7}}
    controller.answers(stat, "stat", rest=controller.half)
    controller.play("collect.yml", "-e", "run=digits")
    kept = controller.folder / "collected/digits"
    for name in HONEST:
        assert (kept / name / "run.log").read_text() == '"content"'
        assert (kept / name / "results/best").read_text() == '"content"'
    assert {path.name for path in kept.iterdir()} <= set(controller.names)
    assert not any(path.is_symlink() for path in kept.rglob("*"))
    assert len(controller.failed) > controller.few


def test_collect_with_rsync(controller: Controller) -> None:
    """No worker gives rsync an option, a source elsewhere or another destination."""
    log = controller.folder / "state/rsync"
    script = controller.folder / "bin/rsync"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" END >> {log}\n')
    script.chmod(0o755)
    controller.before = snapshot(*controller.kept)
    controller.answers({**LEFT, "rsync": True}, "left", of_run_info)
    controller.answers("content", "slurp", of_slurp, controller.half)
    controller.answers(
        {"stat": {"exists": True, "isdir": False, "checksum": CONTENT}},
        "stat",
        rest=controller.half,
    )
    controller.play("collect.yml", "-e", "run=digits")
    calls = [call.split("\n") for call in log.read_text().split("END\n")[:-1]]
    assert len(calls) >= 2 * len(HONEST)
    options = [word for word in calls[0] if word.startswith("--")]
    reader = next(at for at, word in enumerate(options) if word.startswith("--rsync-path="))
    for call in calls:
        assert call[:reader] == options[:reader]
        assert re.fullmatch(r"--rsync-path=sudo -n -u '?[A-Za-z_][\w.-]*\$?'? rsync", call[reader])
        assert call[reader + 1 : len(options)] == options[reader + 1 :]
        *sources, dest, _end = call[len(options) :]
        host = sources[0].partition(":")[0]
        assert host in controller.names
        assert all(source.startswith(f"{host}:/") for source in sources)
        folder = f"{controller.folder}/collected/digits/{host}/"
        assert dest in (folder, f"{folder}results/")
    config = (controller.folder / "state/ssh_config").read_text()
    assert not re.search("(?i)proxycommand|touch", config)


def test_finish(controller: Controller) -> None:
    """The name of a run comes from a worker and goes to all others of the slice: never unread."""
    controller.answers(STANDING, "standing", of_run_info)
    controller.answers(LEFT, "left", of_run_info)
    controller.answers("content", "slurp", of_slurp, controller.half)
    controller.answers(
        {"stat": {"exists": True, "isdir": False, "checksum": CONTENT}},
        "stat",
        rest=controller.half,
    )
    controller.answers({"changed": False, "rc": 0, "stdout": "", "stderr": ""})
    controller.play("finish.yml", "-e", "finish=pair")
    runs = {path.name for path in (controller.folder / "collected").iterdir()}
    assert "digits" in runs
    assert all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", name) for name in runs)
    assert len(controller.failed) > controller.few


def test_keys_and_addresses(controller: Controller) -> None:
    """Public keys are public keys, and our address is an address."""
    controller.answers(KEYS, "git_users", of_run_info)
    controller.play("git_keys.yml")
    assert len(controller.failed) > controller.few
    address = "203.0.113.7 5000 10.0.0.1 22"
    controller.answers(address, "address", lambda data: of_run_info(data.strip(b'"')))
    said = controller.play("firewall.yml")
    assert "is not accepted" in said


def test_doctor_and_drill(controller: Controller) -> None:
    """The doctor has rows for all; a drill does not begin on a worker that talks nonsense."""
    controller.answers(DOCTOR, "host_doctor")
    controller.answers(DRILLED, "drill")
    # Warnings of a worker Ansible prints by itself, as docs/security.md says.
    loud = {"msg": "\x1b]0;pwned\x07\x9b2J", "changed": False}
    for host, result in zip(
        controller.evil, ({**loud, "failed": True}, {**DOCTOR, **loud}), strict=False
    ):
        (controller.folder / f"answers/{host}.host_doctor").write_text(json.dumps(result))
        (controller.folder / f"answers/{host}.drill").write_text(json.dumps({**DRILLED, **result}))
    said = controller.play("looks.yml")
    # Equal trouble of several workers is one row, which may be wrapped.
    assert all(re.search(rf"host: [\w,\s-]*\b{name}\b", said) for name in HONEST)
    refused = re.findall(r"host: (evil\w+)\n\s+remedy: .*\n\s+says: 'could not be checked", said)
    assert "its answer is not accepted" in said
    assert refused or "could not be checked" in said
