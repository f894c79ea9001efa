"""A secret is found nowhere but in its own file.

The same secret, with a marker of its own for each place, is declared wherever the fleet file takes
one. Then everything that could hold it is searched: what Ansible printed, this computer's files,
those of the machine, its journal and metadata, the arguments of all processes, and what the cloud
noted of its requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from ansible_collections.tpu.fleet.plugins.filter.gang_keys import gang_keys
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import in_fleet_file
from canary import Search, Watch
from fleet import NOTHING, ROOT, Fleet, wait_until

HOST = "canary"
LOUD = ("-vvv", "--diff")
PROJECT = "local-project"
ACCOUNT = "serviceAccount:123456789012-compute@developer.gserviceaccount.com"
ENV = "{{{{ lookup('ansible.builtin.env', 'CANARY_{}') }}}}"


def of_environment(name: str) -> str:
    return ENV.format(name)


FLEET: dict[str, Any] = {
    **NOTHING,
    # The other way to apply the roles is in tests/machines/e2e/test_4_apply.py.
    "fleet_apply": "push",
    "fleet_allocations": [
        {"zone": "us-central2-b", "generation": "v4", "tier": "on_demand", "chips": 4}
    ],
    "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}],
    "fleet_users": [{"name": "alice", "uid": 2001}],
    # Packages hold no secrets, and take the longest.
    "fleet_base_packages": ["curl", "git", "python3-venv", "sudo", "tmux"],
    "fleet_shell_packages": [],
    "fleet_google_secrets_endpoint": "http://169.254.169.254",
    "fleet_secrets": [
        {
            "name": "own",
            "user": "alice",
            "in_login_shell": True,
            "env": {"OWN": of_environment("LINES"), "OTHER": of_environment("VARIABLE")},
            "files": [{"path": "~/.config/own/token", "content": of_environment("FILE")}],
        },
        {
            "name": "wandb",
            "user": "alice",
            "preset": "wandb",
            "write": ["files", "env"],
            "values": {"api_key": of_environment("PRESET")},
        },
        {"name": "google", "user": "root", "google_secrets": {"FROM_GOOGLE": "canary"}},
    ],
    "fleet_git_keys": [
        {
            "name": "shared",
            "users": ["alice"],
            "source": "shared",
            "private_key": of_environment("KEY"),
        }
    ],
    "fleet_runs": [
        {
            "name": "canary",
            "slices": [HOST],
            "user": "alice",
            "env": {"RUN_ENV": of_environment("RUN")},
            "secrets": ["own", "wandb", "google"],
            "restart_on_secret_change": True,
            "command": 'for name in OWN OTHER WANDB_API_KEY FROM_GOOGLE RUN_ENV; do printf "%s " '
            '"$name"; printf "%s" "${!name}" | sha256sum; done; sleep 900',
        }
    ],
}
# Refused before anything is built, so that the story needs no index.
AWAY = {
    "fleet_venvs": [{"name": "away", "path": "/opt/venvs/away", "packages": ["no-such-package"]}],
    "fleet_index_url": "https://index.invalid/simple",
    "fleet_index_credentials": [
        {"host": "index.invalid", "user": "robot", "password": of_environment("INDEX")}
    ],
    "fleet_build_secret_env": {"UV_SECRET": of_environment("INDEX")},
    "fleet_build_tries": 1,
}
# What playbooks make: files of people that they pack, and the keys of runs, which this story knows.
MADE = {"user_shell_snapshots", "training_run_keys", "run_queue_key", "dataset_key"}
# Where a secret may be, and whose the file is.
OWN_FILES = {
    "/etc/tpu-fleet/secrets/own.env": "alice",
    "/etc/tpu-fleet/secrets/wandb.env": "alice",
    "/home/alice/.config/own/token": "alice",
    "/home/alice/.netrc": "alice",
    "/home/alice/.ssh/id_tpu_fleet_shared": "alice",
    "/etc/tpu-fleet/runs/canary.env.json": "root",
    "/etc/tpu-fleet/runs/canary.key": "root",
    "/var/lib/tpu-fleet/runs/canary/key.json": "root",
    "/run/tpu-fleet/runs/canary/launch.json": "alice",
}


class Canary:
    """The secrets of one story."""

    def __init__(self, folder: Path) -> None:
        marker = f"canary{secrets.token_hex(8)}"
        key = folder / "key"
        quiet = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "shared", "-f", str(key))
        subprocess.run(quiet, check=True)
        names = ("VARIABLE", "FILE", "PRESET", "RUN", "INDEX", "GOOGLE")
        self.env = {f"CANARY_{name}": f"{marker}-{name.lower()}" for name in names}
        self.env["CANARY_LINES"] = f'-----BEGIN-----\n"{marker}" $HOME\n\'{marker}-é\\\n'
        self.env["CANARY_KEY"] = key.read_text()
        self.gang_secret = f"{marker}-gang"
        of_run = gang_keys(FLEET["fleet_runs"], HOST, self.gang_secret)["canary"]
        # The body of a key has no marker: its second line stands for it.
        self.search = Search(marker, [key.read_text().splitlines()[2], of_run])
        self.google = self.env["CANARY_GOOGLE"]
        self.marker = marker
        for path in (key, key.with_suffix(".pub")):
            path.unlink()


def call(fleet: Fleet, method: str, path: str, body: Any = None) -> Any:
    answer = requests.request(
        method, f"http://127.0.0.1:{fleet.port}/v1/projects/{PROJECT}{path}", json=body, timeout=60
    )
    answer.raise_for_status()
    return answer.json()


def put_into_secret_manager(fleet: Fleet, value: str) -> None:
    call(fleet, "POST", "/services/secretmanager.googleapis.com:enable")
    call(fleet, "POST", "/secrets?secretId=canary", {"replication": {"automatic": {}}})
    data = base64.b64encode(value.encode()).decode()
    call(fleet, "POST", "/secrets/canary:addVersion", {"payload": {"data": data}})
    role = {"role": "roles/secretmanager.secretAccessor", "members": [ACCOUNT]}
    call(fleet, "POST", "/secrets/canary:setIamPolicy", {"policy": {"bindings": [role]}})


def secret_options(options: dict[str, Any], path: str = "") -> set[str]:
    """List the options of roles that say of themselves that they hold secrets."""
    found = set()
    for name, option in options.items():
        if option.get("no_log"):
            found.add(f"{path}{name}")
        found |= secret_options(option.get("options", {}), f"{path}{name}.")
    return found


def declared(value: Any, path: str) -> bool:
    head, _dot, rest = path.partition(".")
    if isinstance(value, list):
        return any(declared(item, path) for item in value)
    if not isinstance(value, dict) or head not in value:
        return False
    return declared(value[head], rest) if rest else "CANARY_" in json.dumps(value[head])


def test_every_place_for_a_secret_has_one_in_this_story() -> None:
    places: set[str] = set()
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            places |= secret_options(in_fleet_file(entry["options"]))
    assert "fleet_secrets.env" in places
    assert {place for place in places if not declared({**FLEET, **AWAY}, place)} == MADE


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path)


def leaks(found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Leave out of what was found on a machine what may be there."""
    left = {}
    for where, (mode, owner) in found.items():
        if OWN_FILES.get(where) == owner and mode == "0o600":
            continue
        # The program has them in its environment: that is what they are for.
        if where.startswith("a environ of") and owner == "alice":
            continue
        left[where] = (mode, owner)
    return left


# In CI tests/cloud/apply/test_session.py looks for secrets where machines apply the roles
# themselves.
@pytest.mark.night
def test_a_secret_is_found_nowhere_but_in_its_file(fleet: Fleet, canary: Canary) -> None:
    search, work = canary.search, fleet.folder / "work"
    work.mkdir(exist_ok=True)
    env = {
        **canary.env,
        "ANSIBLE_HOME": str(work / "home"),
        "ANSIBLE_LOCAL_TEMP": str(work / "local"),
        "ANSIBLE_LOG_PATH": str(work / "ansible.log"),
        "TMPDIR": str(work),
    }
    said: list[str] = []

    def play(*words: str, ok: bool = True) -> str:
        told = fleet.run("ansible-playbook", *words, *LOUD, ok=ok, **env)
        said.append(told)
        return told

    fleet.declare(FLEET)
    put_into_secret_manager(fleet, canary.google)
    # Where the controller would make one.
    gang_secret = fleet.folder / "state" / "gang_secret"
    gang_secret.parent.mkdir(mode=0o700, exist_ok=True)
    gang_secret.write_text(canary.gang_secret)
    gang_secret.chmod(0o600)
    with Watch(search) as watch:
        play("tpu.fleet.provision")
        play("tpu.fleet.configure")
        play("tpu.fleet.train")
        wait_until("the run", lambda: fleet.status(HOST, "canary").get("state") == "running", 90)
        show = 'import hashlib, os; print(hashlib.sha256(os.environb[b"OWN"]).hexdigest())'
        login = f"sudo -i -u alice python3 -c '{show}'"
        assert digest(canary.env["CANARY_LINES"]) in fleet.ssh(HOST, login)
        # The same again, in check mode: nothing to do, and nothing to say.
        told = play("tpu.fleet.configure", "--check", "--tags", "env_secrets,git_access")
        assert re.search(rf"{HOST} .*changed=0 ", told)
        fail_on_purpose(fleet, play)

    assert watch.looks > 100
    assert watch.found == set()
    assert [line for told in said for line in search.text(told)] == []
    here = {path for path in search.folder(fleet.folder) if "/cloud/state.db" not in path}
    assert here == {str(gang_secret)}
    assert gang_secret.stat().st_mode & 0o777 == 0o600
    assert search.folder(Path("~/.ansible/tmp").expanduser()) == []
    for path in ("state", "history", "requests"):
        noted = requests.get(f"http://127.0.0.1:{fleet.port}/_cloud/{path}", timeout=60).text
        assert search.text(noted) == [], path
    found = search.machine(fleet, HOST)
    assert leaks(found) == {}
    assert set(OWN_FILES) <= set(found), "what is searched for can be found"
    got = fleet.log(HOST, "canary")
    for name, value in (
        ("OWN", canary.env["CANARY_LINES"]),
        ("OTHER", canary.env["CANARY_VARIABLE"]),
        ("WANDB_API_KEY", canary.env["CANARY_PRESET"]),
        ("FROM_GOOGLE", canary.google),
        ("RUN_ENV", canary.env["CANARY_RUN"]),
    ):
        assert f"{name} {digest(value)}" in got, name

    each_leak_is_found(fleet, canary, work)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fail_on_purpose(fleet: Fleet, play: Any) -> None:
    """Let the tasks that hold secrets fail: that is when Ansible says most."""
    # Values of a wrong kind, in the fleet file.
    first, *rest = FLEET["fleet_secrets"]
    for variables in (of_environment("VARIABLE"), {"not a name": of_environment("VARIABLE")}):
        fleet.declare({**FLEET, "fleet_secrets": [{**first, "env": variables}, *rest]})
        play("tpu.fleet.configure", "--tags", "env_secrets", ok=False)
    # The same where nothing checks the fleet file: the role alone.
    alone = fleet.folder / "alone.yml"
    roles = ["tpu.fleet.env_secrets", "tpu.fleet.git_access", "tpu.fleet.training_run"]
    plays = [
        {"hosts": "tpu", "gather_facts": False, "ignore_errors": True, "tasks": [include]}
        for include in ({"ansible.builtin.include_role": {"name": role}} for role in roles)
    ]
    alone.write_text(yaml.safe_dump(plays))
    wrong: dict[str, Any] = {**FLEET, "fleet_secrets": [{**first, "env": ENV}, *rest]}
    wrong["fleet_secrets"][0]["variables"] = of_environment("VARIABLE")
    wrong["fleet_git_keys"] = [{**FLEET["fleet_git_keys"][0], "source": of_environment("FILE")}]
    wrong["fleet_git_keys"][0]["source"] = "neither"
    wrong["fleet_runs"] = [{**FLEET["fleet_runs"][0], "env": of_environment("RUN")}]
    fleet.declare(wrong)
    assert int(re.findall(r"ignored=(\d+)", play(str(alone)))[-1]) >= len(roles)
    # Something in the way on the machine.
    fleet.declare(FLEET)
    block = (
        "for p in /home/alice/.netrc /etc/tpu-fleet/runs/canary.env.json; do sudo mv $p $p.away;"
    )
    fleet.ssh(HOST, block + " sudo mkdir $p; done")
    assert "there is a directory" in play("tpu.fleet.configure", "--tags", "env_secrets", ok=False)
    play("tpu.fleet.train", ok=False)
    back = "for p in /home/alice/.netrc /etc/tpu-fleet/runs/canary.env.json; do sudo rmdir $p;"
    fleet.ssh(HOST, back + " sudo mv $p.away $p; done")
    # A package index that is not there.
    fleet.declare({**FLEET, **AWAY})
    told = play("tpu.fleet.configure", "--tags", "git_access,python_env", ok=False)
    assert re.search(rf"^{HOST} .*failed=1 ", told, re.M), "it fails on the machine"
    fleet.declare(FLEET)


def each_leak_is_found(fleet: Fleet, canary: Canary, work: Path) -> None:
    """Leak on purpose, in each of the ways that were searched."""
    search, value = canary.search, canary.env["CANARY_VARIABLE"]
    hidden = base64.b64encode(f"user:{value}".encode()).decode()
    with Watch(search) as watch:
        # Two commands each: a shell becomes its last one, which does not have the value. Seconds,
        # as a busy computer looks less often.
        fleet.ssh(HOST, f"sleep 2; : {value}")
        subprocess.run(["sh", "-c", "sleep 3; :", value], check=True)
    assert any("sleep 3" in line for line in watch.found)
    assert any("sleep 2" in line for line in watch.found)
    assert search.text(f"ok\nAuthorization: Basic {hidden}\n")
    assert search.text(f"msg: {value[:10]}\n    {value[10:]}\n")
    (work / "left.json").write_text(json.dumps({"msg": value}))
    assert [path for path in search.folder(fleet.folder) if path.endswith("left.json")]
    for command in (
        f"echo {hidden} | sudo tee /var/lib/left > /dev/null",
        f"logger -t left {value}",
        "sudo chmod 644 /etc/tpu-fleet/secrets/own.env",
        "curl -sf -X PUT -H Metadata-Flavor:Google -d "
        f"{value} http://169.254.169.254/computeMetadata/v1/instance/guest-attributes/left/one",
    ):
        fleet.ssh(HOST, command)
    assert set(leaks(search.machine(fleet, HOST))) >= {
        "/var/lib/left",
        "the journal",
        "the metadata",
        "/etc/tpu-fleet/secrets/own.env",
    }
