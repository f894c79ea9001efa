"""How a machine comes to trust the cloud's authority, before there is a machine."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from tpu_local_cloud.machines.image import GUEST
from tpu_local_cloud.serve.authority import papers

SCRIPT = GUEST / "files/usr/local/sbin/trust-authority"


def trust(root: Path, authority: Path) -> None:
    """Run the script with its places below a folder."""
    text = SCRIPT.read_text()
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


def test_it_is_in_the_bundle_once_and_in_the_folder_by_its_hash(tmp_path: Path) -> None:
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
