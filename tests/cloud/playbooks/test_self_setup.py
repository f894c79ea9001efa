"""What is published for machines that set themselves up, by a real Ansible with a real vault."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import first
from warm_ansible import BIN, run_ansible

VAULT = BIN / "ansible-vault"
CANARY = "canary-of-what-is-published"
PLAY = [
    {
        "hosts": "tpu",
        "gather_facts": False,
        "tasks": [
            {
                # As the role does it where it is pushed.
                "name": "See which versions are meant",
                "ansible.builtin.set_fact": {
                    "__code_checkout_looked": {
                        "versions": {"app": "c1"},
                        "invocation": {"module_args": "not of interest"},
                    }
                },
            },
            {
                "name": "Publish",
                "tpu.fleet.self_setup": {
                    "place": "{{ fleet_self_setup }}",
                    "slices": ["pair"],
                    "roles": ["host_base", "user_accounts", "git_access", "training_run"],
                    "key": "{{ key }}",
                },
                "run_once": True,
                "register": "told",
            },
        ],
    }
]


class Publisher:
    """A controller with two workers, to which it needs no connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "share").mkdir()
        (folder / "vault").write_text("open sesame\n")
        (folder / "play.json").write_text(json.dumps(PLAY))
        key = folder / "key"
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(argv, check=True)
        self.public = key.with_suffix(".pub").read_text()
        self.env = {**os.environ, "ANSIBLE_VAULT_PASSWORD_FILE": str(folder / "vault")}
        variables = folder / "group_vars" / "tpu"
        variables.mkdir(parents=True)
        values = {
            "key": str(key),
            "fleet_self_setup": {
                "server": "10.0.0.9",
                "export_path": "/volume1/fleet",
                "local_path": str(folder / "share"),
            },
            "tpu_vm_name": "pair",
            "tpu_vm_uid": "111",
            "tpu_vm_worker_count": 2,
            "fleet_users": [{"name": "alice", "uid": 2001}],
            "fleet_locale": "{{ of_the_vault }}",
            "fleet_runs": [
                {"name": "plain", "slices": ["pair"], "command": "x", "env": {"WORD": "said"}},
                {
                    "name": "closed",
                    "slices": ["pair"],
                    "command": "x",
                    "env": {"KEY": "{{ of_the_vault }}"},
                },
            ],
        }
        encrypted = self.run(str(VAULT), "encrypt_string", CANARY, "--name", "inline_of_a_vault")
        more = "fleet_archive_dir: '{{ inline_of_a_vault }}'\n"
        (variables / "plain.yml").write_text(yaml.safe_dump(values) + encrypted + "\n" + more)
        closed = variables / "closed.yml"
        closed.write_text(f"of_the_vault: {CANARY}\n")
        self.run(str(VAULT), "encrypt", str(closed))
        hosts = {
            f"pair-w{n}": {"tpu_vm_worker_index": n, "tpu_vm_internal_ip": f"10.0.0.{n + 2}"}
            for n in (0, 1)
        }
        (folder / "hosts.json").write_text(json.dumps({"tpu": {"hosts": hosts}}))

    def run(self, program: str, *words: str) -> str:
        done = run_ansible((program, *words), self.env, self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def publish(self, *words: str) -> str:
        return self.run("ansible-playbook", "-i", "hosts.json", "play.json", *words)

    def pointer(self) -> dict[str, Any]:
        envelope = json.loads((self.folder / "share" / "slices" / "pair.json").read_text())
        first.verify(envelope["pointer"], envelope["signature"], [self.public])
        found: dict[str, Any] = json.loads(envelope["pointer"])
        return found


def test_it_is_published_without_what_was_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first, "RUNTIME", tmp_path / "run")
    publisher = Publisher(tmp_path)
    publisher.publish("--check")
    assert list((tmp_path / "share").iterdir()) == []
    publisher.publish("--limit", "pair-w0")
    assert list((tmp_path / "share").iterdir()) == []
    assert "changed=1" in publisher.publish()
    pointer = publisher.pointer()
    assert pointer["fleet"].keys() == {"project", "owner"}
    assert pointer["fleet"]["owner"] == "managed"
    assert [worker["internal_ip"] for worker in pointer["workers"]] == ["10.0.0.2", "10.0.0.3"]
    assert pointer["without"] == [
        "fleet_archive_dir, as it is made of secrets",
        "fleet_locale, as it is made of secrets",
        "the run closed, whose env is made of something else",
    ]
    looked = pointer["found"]["as-published"]["__code_checkout_looked"]
    assert looked == {"versions": {"app": "c1"}}
    files = tmp_path / "share" / "files"
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in files.iterdir())
    given = json.loads((files / pointer["workers"][1]["wish"]["variables"]).read_bytes())
    plain, closed = given["plain"]["fleet_runs"]
    assert (plain["env"], plain.get("enabled")) == ({"WORD": "said"}, None)
    assert (closed["env"], closed["enabled"]) == ({}, False)
    values = {**given["templates"], **given["plain"]}
    assert values["tpu_vm_worker_index"] == 1
    # And once more, nothing is.
    assert "changed=1" not in publisher.publish()
