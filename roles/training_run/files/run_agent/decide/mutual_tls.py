"""The names and the authority of a run's certificates. All workers derive the same ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

# The number of points of the curve P-256, and the ASN.1 around a private key on it.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BEFORE, _AFTER = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")


def authority_key(gang_key: str, run: str) -> bytes:
    """Return the private key of the run's authority, in PEM.

    It follows from the gang's key, which all workers have and only root reads: so each worker
    signs its own certificate, and none is sent.
    """
    context = b"tpu-fleet authority\0" + run.encode()
    number = hmac.new(bytes.fromhex(gang_key), context, hashlib.sha512).digest()
    secret = int.from_bytes(number, "big") % (_ORDER - 1) + 1
    text = base64.encodebytes(_BEFORE + secret.to_bytes(32, "big") + _AFTER)
    return b"-----BEGIN EC PRIVATE KEY-----\n" + text + b"-----END EC PRIVATE KEY-----\n"


def peers(run: str, attempt: int) -> str:
    """Return how the names of all certificates of an attempt begin."""
    return f"tpu-fleet://{run}/{attempt}/"


def variables(folder: str, run: str, attempt: int) -> dict[str, str]:
    """Return the variables by which JAX finds certificates in a folder, and refuses to do without.

    A process of an earlier attempt has another name, and is refused.
    """
    return {
        "JAX_MTLS_CERT_FILE": f"{folder}/certificate.pem",
        "JAX_MTLS_KEY_FILE": f"{folder}/key.pem",
        "JAX_MTLS_CA_FILE": f"{folder}/authorities.pem",
        "JAX_MTLS_PEER_URI_PREFIX": peers(run, attempt),
        "JAX_DISTRIBUTED_VERIFY_SECURE_CREDENTIALS": "1",
    }


def settings(**names: Any) -> str:
    """Return the settings for `openssl ca`, for a folder and the name of a certificate."""
    return _SETTINGS.format(**names)


_SETTINGS = """\
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = URI:{name}
"""
