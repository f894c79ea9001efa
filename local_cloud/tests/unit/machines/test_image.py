"""Which base image is tried, what its name depends on, and what our files in it do."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tpu_local_cloud.machines.host import HostFacts
from tpu_local_cloud.machines.image import GUEST, UBUNTU, Base, candidates, live_users
from tpu_local_cloud.serve.authority import papers

FACTS = HostFacts("Linux", 0, "debian", (), "bookworm", "cgroup2", True, 0, 1024, 1024)
OWN = ("debian", "bookworm")
TRUST = GUEST / "files/usr/local/sbin/trust-authority"


@pytest.mark.parametrize(
    ("wanted", "codename", "expected"),
    [
        ("auto", "bookworm", [("pull", UBUNTU), OWN]),
        ("auto", "", [("pull", UBUNTU)]),
        ("ubuntu", "bookworm", [("pull", UBUNTU)]),
        ("debian", "bookworm", [OWN]),
        ("debian", "", []),
        ("registry.example/image:1", "bookworm", [("pull", "registry.example/image:1")]),
    ],
)
def test_candidates(wanted: str, codename: str, expected: list[tuple[str, str]]) -> None:
    found = candidates(wanted, replace(FACTS, codename=codename))
    assert [(base.kind, base.source) for base in found] == expected


def test_another_package_makes_another_base() -> None:
    assert Base("debian", "bookworm").key == Base("debian", "bookworm").key
    assert Base("debian", "bookworm").key != Base("debian", "trixie").key
    assert Base("debian", "bookworm").key != Base("debian", "bookworm", ("systemd",)).key


def test_a_cloud_whose_state_is_gone_uses_no_image(tmp_path: Path) -> None:
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    alive.write_text(str(tmp_path))
    dead.write_text(str(tmp_path / "nothing"))
    assert live_users([alive, dead]) == [alive]


def trust(root: Path, authority: Path) -> None:
    """Run the script with its places below a folder."""
    text = TRUST.read_text()
    for place in ("/usr/local/share", "/etc/ssl"):
        text = text.replace(place, f"{root}{place}")
    subprocess.run(["sh", "-c", text, "sh", str(authority)], check=True)


def found(**where: str) -> list[str]:
    """Return the names of the authorities that a client trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(**where)
    return [
        dict(part[0] for part in one["subject"])["commonName"] for one in context.get_ca_certs()
    ]


def test_an_authority_is_in_the_bundle_once_and_in_the_folder_by_its_hash(tmp_path: Path) -> None:
    certs = tmp_path / "root/etc/ssl/certs"
    certs.mkdir(parents=True)
    other = papers(tmp_path / "other").authority.read_text()
    (certs / "ca-certificates.crt").write_text(other)
    authority = papers(tmp_path / "own").authority
    for _boot in range(2):
        trust(tmp_path / "root", authority)
    bundle = (certs / "ca-certificates.crt").read_text()
    assert bundle == other + authority.read_text()
    assert found(cafile=str(certs / "ca-certificates.crt")) == ["tpu-local-cloud CA"] * 2
    (link,) = certs.glob("*.0")
    assert link.read_text() == authority.read_text()
    hashed = [
        "openssl",
        "verify",
        "-no-CAfile",
        "-CApath",
        str(certs),
        str(authority.parent / "server.pem"),
    ]
    assert subprocess.run(hashed, check=False, capture_output=True).returncode == 0
