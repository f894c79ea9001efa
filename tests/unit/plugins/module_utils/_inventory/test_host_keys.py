from __future__ import annotations

import base64
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._inventory import host_keys


def key_of(kind: str, secret: bytes = b"k" * 32) -> str:
    name = kind.encode()
    fields = (name, secret)
    return base64.b64encode(
        b"".join(len(part).to_bytes(4, "big") + part for part in fields)
    ).decode()


ED25519 = key_of("ssh-ed25519")


def entry(*items: tuple[str, str, str]) -> dict[str, Any]:
    return {"queryValue": {"items": [{"namespace": n, "key": k, "value": v} for n, k, v in items]}}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, {}),
        ({"queryValue": {}}, {}),
        ({"queryValue": {"items": [None, "x"]}}, {}),
        (entry(("hostkeys", "ssh-ed25519", ED25519)), {"ssh-ed25519": ED25519}),
        # What stands behind the key could otherwise become a second line, or an option.
        (entry(("hostkeys", "ssh-ed25519", f"{ED25519} x\n@cert-authority * y")), None),
        (entry(("other", "ssh-ed25519", ED25519)), {}),
        (entry(("hostkeys", "ssh-dss", key_of("ssh-dss"))), {}),
        (entry(("hostkeys", "ssh-ed25519", "not base64!")), {}),
        (entry(("hostkeys", "ssh-ed25519", "")), {}),
        (entry(("hostkeys", "ssh-ed25519", key_of("ssh-rsa"))), {}),
        (entry(("hostkeys", "ssh-ed25519", ED25519[:12])), {}),
    ],
)
def test_published_keys(attributes: dict[str, Any], expected: dict[str, str] | None) -> None:
    if expected is None:
        expected = {"ssh-ed25519": ED25519}
    assert host_keys.published_keys(attributes) == expected


def test_lines_are_filed_by_uid_and_worker() -> None:
    rsa = key_of("ssh-rsa")
    lines = host_keys.known_hosts_lines("99", [{"ssh-rsa": rsa, "ssh-ed25519": ED25519}, {}, {}])
    assert lines == [f"tpu.99.0 ssh-ed25519 {ED25519}", f"tpu.99.0 ssh-rsa {rsa}"]
    # A worker that published nothing shifts nobody else's number.
    assert host_keys.known_hosts_lines("99", [{}, {"ssh-rsa": rsa}]) == [f"tpu.99.1 ssh-rsa {rsa}"]


@pytest.mark.parametrize("uid", ["../../etc/passwd", "a b", "a,b", "*", "", "\n", "ü"])
def test_a_strange_uid_stays_one_harmless_word(uid: str, tmp_path: Path) -> None:
    assert host_keys.alias(uid, 0).replace(".", "").isalnum()
    assert host_keys.known_hosts_path(tmp_path, uid).parent == tmp_path


def test_the_file_is_private_and_only_written_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "known_hosts" / "99"
    assert host_keys.write_known_hosts(path, ["a b c"])
    before = path.stat()
    assert stat.S_IMODE(before.st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not host_keys.write_known_hosts(path, ["a b c"])
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert host_keys.write_known_hosts(path, ["d e f"])
    assert path.read_text() == "d e f\n"
    assert [file.name for file in path.parent.iterdir()] == ["99"]


@pytest.mark.parametrize(("policy", "strict"), [("verify", "yes"), ("accept_new", "accept-new")])
def test_ssh_arguments(policy: str, strict: str) -> None:
    words = shlex.split(
        host_keys.ssh_arguments(host_keys.ssh_options("99", 3, Path("/home/a b/99"), policy))
    )
    assert words[::2] == ["-o"] * (len(words) // 2)
    assert {
        "HostKeyAlias=tpu.99.3",
        'UserKnownHostsFile="/home/a b/99"',
        f"StrictHostKeyChecking={strict}",
    } <= set(words)


def test_the_tunnel_command() -> None:
    command = host_keys.iap_proxy_command("t1v-n-0-w-1", "p", "us-central2-b")
    words = shlex.split(command)
    assert words[:6] == ["gcloud", "alpha", "compute", "start-iap-tunnel", "t1v-n-0-w-1", "%p"]
    assert {"--listen-on-stdin", "--project=p", "--zone=us-central2-b"} <= set(words)
    arguments = host_keys.ssh_arguments(
        host_keys.ssh_options("99", 0, Path("/k"), "verify", command)
    )
    assert f"ProxyCommand={command}" in shlex.split(arguments)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("t1v-n-00-w-0", "t1v-n-00-w-0"),
        ("$(reboot)", None),
        ("a;b", None),
        ("-oX=y", None),
        ("", None),
    ],
)
def test_instance_name(value: str, expected: str | None) -> None:
    assert host_keys.instance_name(entry(("any", "hostname", value))) == expected


def test_a_shared_connection_belongs_to_one_machine_at_one_address() -> None:
    sockets = {
        host_keys.control_path(uid, worker, address)
        for uid in ("1", "2")
        for worker in (0, 1)
        for address in ("192.0.2.1", "192.0.2.2")
    }
    assert len(sockets) == 8
