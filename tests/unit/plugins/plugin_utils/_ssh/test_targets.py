from __future__ import annotations

import getpass
import shlex
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.host_keys import ssh_arguments
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import (
    SshConfigError,
    Target,
    target_by,
    target_of,
)


def one(*options: str, address: str = "", port: str = "", user: str = "") -> Target:
    arguments = " ".join(f"-o {shlex.quote(option)}" for option in options)
    return target_of("a", address, port, user, "", [arguments])


def test_what_the_inventory_gives_a_worker() -> None:
    told = {
        "HostKeyAlias": "tpu.650.0",
        "UserKnownHostsFile": '"/home/me/a folder/known"',
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "HashKnownHosts": "no",
        "CheckHostIP": "no",
        "UpdateHostKeys": "no",
    }
    variables = {
        "ansible_host": "10.0.0.1",
        "ansible_user": "ubuntu",
        "ansible_ssh_private_key_file": "/home/me/a folder/tpu%%fleet",
        "ansible_ssh_common_args": ssh_arguments(told),
    }
    first = target_by("pair-w0", variables.get)
    assert (first.name, first.address, first.port, first.user) == (
        "pair-w0",
        "10.0.0.1",
        22,
        "ubuntu",
    )
    assert first.identity_files == ("/home/me/a folder/tpu%fleet",)
    assert (first.key_name, first.known_hosts) == ("tpu.650.0", ("/home/me/a folder/known",))
    assert (first.accept_new, first.proxy_command) == (False, "")
    told = {
        "HostKeyAlias": "tpu.650.1",
        "StrictHostKeyChecking": "accept-new",
        "ProxyCommand": "gcloud start-iap-tunnel 'node 1' %p --project=%%x --listen-on-stdin",
    }
    key = {"ansible_ssh_private_key_file": "~/.ssh/tpu_fleet"}
    variables = {**variables, **key, "ansible_ssh_common_args": ssh_arguments(told)}
    second = target_by("pair-w1", variables.get)
    assert second.identity_files == (str(Path("~/.ssh/tpu_fleet").expanduser()),)
    assert second.accept_new
    assert (
        second.proxy_command == "gcloud start-iap-tunnel 'node 1' 22 --project=%x --listen-on-stdin"
    )


@pytest.mark.parametrize("policy", ["yes", "no", "ask", "off", "YES"])
def test_only_accept_new_trusts_a_first_contact(policy: str) -> None:
    assert not one(f"StrictHostKeyChecking={policy}").accept_new


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (["Port=2222"], "key_name", "[a]:2222"),
        (["HostName=10.1.1.1"], "key_name", "10.1.1.1"),
        (["HostName=%h.example"], "address", "a.example"),
        ([], "user", getpass.getuser()),
        # The first value counts.
        (["User=me", "User=all"], "user", "me"),
        # Keys add up.
        (["IdentityFile=/1", "IdentityFile=/2"], "identity_files", ("/1", "/2")),
        (["IdentityFile=none"], "identity_files", ()),
        (["IdentitiesOnly=yes"], "identities_only", True),
        (["IdentityAgent=/run/%r", "User=me"], "identity_agent", "/run/me"),
        (["UserKnownHostsFile=none", "GlobalKnownHostsFile=/g"], "known_hosts", ("/g",)),
        (["ProxyCommand=none", "ProxyJump=j"], "proxy_command", ""),
        (["ProxyJump=me@x:23,y"], "proxy_command", "ssh -J me@x:23 -W '[a]:22' y"),
        (["ProxyJump=none"], "proxy_command", ""),
        ([], "cheap_kex", False),
        (["KexAlgorithms=curve25519-sha256,ecdh-sha2-nistp256"], "cheap_kex", True),
    ],
)
def test_what_options_of_ssh_say(options: list[str], name: str, value: object) -> None:
    assert getattr(one(*options), name) == value


def test_variables_of_their_own_come_before_options() -> None:
    found = one("User=me", "Port=23", "HostName=::1", address="::2", port="24", user="you")
    assert (found.address, found.port, found.user) == ("::2", 24, "you")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("-oMatch=all", "ssh's match of a is not understood here. Take it out."),
        ("-o Include=other", "ssh's include of a is not understood here"),
        ("-oHostKeyAlgorithms=ssh-rsa", "hostkeyalgorithms of a is not understood"),
        ("-J jump", "ssh's -J in the variables of a is not understood here. Write it as -o."),
        ("-oPort=many", "The port of a is no number"),
        ("-oUser=", "a: ssh's user has no value"),
        ("-oUser", "a: ssh's user has no value"),
        ("'-oUser=\"me'", "a: ssh's user: No closing quotation"),
        ("-oHostName=%x", "%x in '%x' is not understood"),
    ],
)
def test_what_cannot_be_followed_is_an_error(arguments: str, says: str) -> None:
    with pytest.raises(SshConfigError, match=says):
        target_of("a", "", "", "", "", [arguments])
