from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import (
    SshConfigError,
    parse_fleet,
)

WRITTEN = """\
# Written by tpu.fleet: ssh -F /state/ssh_config HOST
# Inventory: ["/home/me/fleet/inventory"]
# Group tpu: pair-w0 pair-w1
# Group tpu_slice_pair: pair-w0 pair-w1
# Group tpu_unavailable:

Host pair-w0
  HostName 10.0.0.1
  User ubuntu
  IdentityFile "/home/me/a folder/tpu%%fleet"
  HostKeyAlias tpu.650.0
  UserKnownHostsFile "/home/me/a folder/known"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  HashKnownHosts no
  CheckHostIP no
  UpdateHostKeys no

Host pair-w1
  HostName 10.0.0.2
  User ubuntu
  IdentityFile "~/.ssh/tpu_fleet"
  HostKeyAlias tpu.650.1
  StrictHostKeyChecking accept-new
  ProxyCommand gcloud start-iap-tunnel 'node 1' %p --project=%%x --listen-on-stdin
"""


def test_what_the_template_writes():
    fleet = parse_fleet(WRITTEN)
    first, second = fleet.targets.values()
    assert (first.name, first.address, first.port, first.user) == (
        "pair-w0",
        "10.0.0.1",
        22,
        "ubuntu",
    )
    assert first.identity_files == ("/home/me/a folder/tpu%fleet",)
    assert (first.key_name, first.known_hosts) == ("tpu.650.0", ("/home/me/a folder/known",))
    assert (first.accept_new, first.proxy_command) == (False, "")
    assert second.identity_files == (str(Path("~/.ssh/tpu_fleet").expanduser()),)
    assert second.accept_new
    assert (
        second.proxy_command == "gcloud start-iap-tunnel 'node 1' 22 --project=%x --listen-on-stdin"
    )
    assert fleet.groups == {
        "tpu": ("pair-w0", "pair-w1"),
        "tpu_slice_pair": ("pair-w0", "pair-w1"),
        "tpu_unavailable": (),
    }
    assert fleet.inventory == ("/home/me/fleet/inventory",)


def one(text, name="a"):
    return parse_fleet(text, "/state/ssh_config").targets[name]


@pytest.mark.parametrize("policy", ["yes", "no", "ask", "off", "YES"])
def test_only_accept_new_trusts_a_first_contact(policy):
    assert not one(f"Host a\n StrictHostKeyChecking {policy}\n").accept_new


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Host a\n  Port 2222\n", "key_name", "[a]:2222"),
        ("Host a\n  HostName 10.1.1.1\n", "key_name", "10.1.1.1"),
        ("Host a\n HostName %h.example\n", "address", "a.example"),
        ("Host a\n", "user", getpass.getuser()),
        # The first value counts.
        ("Host a\n User me\n User all\n", "user", "me"),
        # Keys add up.
        ("Host a\n IdentityFile /1\n IdentityFile /2\n", "identity_files", ("/1", "/2")),
        ("Host a\n IdentityFile none\n", "identity_files", ()),
        ("Host a\n IdentitiesOnly yes\n", "identities_only", True),
        ("Host a\n IdentityAgent /run/%r\n User me\n", "identity_agent", "/run/me"),
        ("Host a\n UserKnownHostsFile none\n GlobalKnownHostsFile /g\n", "known_hosts", ("/g",)),
        ("Host a\n ProxyCommand none\n ProxyJump j\n", "proxy_command", ""),
        (
            "Host a\n ProxyJump me@x:23,y\n",
            "proxy_command",
            "ssh -F /state/ssh_config -J me@x:23 -W '[a]:22' y",
        ),
        ("Host a\n ProxyJump none\n", "proxy_command", ""),
        ("Host a\n", "cheap_kex", False),
        ("Host a\n KexAlgorithms curve25519-sha256,ecdh-sha2-nistp256\n", "cheap_kex", True),
    ],
)
def test_what_ssh_config_says(text, name, value):
    assert getattr(one(text), name) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Host a\n Match all\n", "line 2: match is not understood here"),
        ("Include other\n", "line 1: include is not understood here"),
        ("Host a\n HostKeyAlgorithms ssh-rsa\n", "hostkeyalgorithms is not understood"),
        ("User all\nHost a\n", "line 1: user stands before the first Host"),
        ("Host a\nHost *\n User all\n", r"line 2: Host \* is not one host"),
        ("Host a b\n", "line 1: Host a b is not one host"),
        ("Host a\nHost a\n", "line 2: Host a is not one host, or named twice"),
        ("Host a\n Port=2222\n", "line 2: port=2222 has no value"),
        ("Host a\n Port many\n", "the port of a is no number"),
        ("Host a\n User\n", "line 2: user has no value"),
        ('Host a\n User "me\n', "line 2: No closing quotation"),
        ("Host a\n HostName %x\n", "%x in '%x' is not understood"),
    ],
)
def test_what_cannot_be_followed_is_an_error(text, says):
    with pytest.raises(SshConfigError, match=says):
        parse_fleet(text)


def test_a_thousand_hosts_are_read_in_one_pass():
    """Counted, not timed: every line is taken apart once."""
    from unittest import mock

    from ansible_collections.tpu.fleet.plugins.plugin_utils import ssh_targets

    block = WRITTEN[WRITTEN.index("Host pair-w0") : WRITTEN.index("Host pair-w1")]
    text = "".join(block.replace("pair-w0", f"w{number}") for number in range(1000))
    with mock.patch.object(ssh_targets, "_words", side_effect=ssh_targets._words) as words:
        assert len(parse_fleet(text).targets) == 1000
    assert words.call_count == 1000 * len(block.strip().splitlines())
