"""The certificate by which the local cloud answers to Google's names, and who vouches for it.

The key of the authority is not kept: what trusts it trusts this one certificate.
"""

from __future__ import annotations

import ipaddress
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

STORAGE = "storage.googleapis.com"
NAMES = (STORAGE, f"*.{STORAGE}", "www.googleapis.com", "localhost")
_LIFE = timedelta(days=3650)


@dataclass(frozen=True)
class Papers:
    """Files in one folder of the cloud's state."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Return what clients must trust."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """Return what the server shows."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """Return the server's key."""
        return self.folder / "server.key"


def papers(folder: Path) -> Papers:
    """Return the files in a folder, which are made once, all or none."""
    found = Papers(folder)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
        try:
            _make(Papers(new))
            new.chmod(0o755)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return found


def _make(target: Papers) -> None:
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = _name("tpu-local-cloud CA")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    authority = (
        _draft(name, name, root.public_key(), root.public_key())
        # Python 3.13 refuses an authority without these two.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(root, hashes.SHA256())
    )
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    names = x509.SubjectAlternativeName([*map(x509.DNSName, NAMES), *addresses])
    certificate = (
        _draft(_name(STORAGE), name, own.public_key(), root.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .sign(root, hashes.SHA256())
    )
    target.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    target.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    target.key.touch(mode=0o600)
    target.key.write_bytes(
        own.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    # By the clock of this computer, which is that of the machines.
    now = datetime.now(UTC)
    of_signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(of_signer, critical=False)
    )


def _usage(**given: bool) -> x509.KeyUsage:
    words = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{word: given.get(word, False) for word in words})
