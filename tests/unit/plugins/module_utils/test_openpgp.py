"""Which key it is."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.openpgp import fingerprint

# Made for this test by gpg, which also says the fingerprint.
KEY = """
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawHCYBYJKwYBBAHaRw8BAQdApGe78Tjk2CYjlFvRcz5jwzx1ZxevEC9aFka0
QoW3PG+0F3Rlc3QgPHRlc3RAZXhhbXBsZS5vcmc+iJAEExYIADgWIQRgzCn61dbx
5GLR4JzQHVqpHj4DOgUCawHCYAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAK
CRDQHVqpHj4DOsJcAP4oV5PXrvftmIlsAGT6SHmSlPi11E9s2FcvbvVY/SA8BQD+
OrbIsKwgYY8MGRSZMjZtgCthNHnNgJpHHmxCeq12kg0=
=7gOa
-----END PGP PUBLIC KEY BLOCK-----
"""
NAME = "60CC29FAD5D6F1E462D1E09CD01D5AA91E3E033A"


def test_it_is_what_gpg_says() -> None:
    assert fingerprint(KEY) == NAME
    assert (
        fingerprint(
            KEY.replace("\n", "\r\n").replace("BLOCK-----\r\n", "BLOCK-----\r\nVersion: 1\r\n", 1)
        )
        == NAME
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no key",
        KEY.replace("mDME", "mDMF"),
        KEY[:120] + KEY[-60:],
        KEY.replace("mDMEaw", "mDMDaw"),
    ],
)
def test_what_is_no_key_has_no_fingerprint(text: str) -> None:
    assert fingerprint(text) != NAME
