"""What all workers of a run derive from the gang's key."""

from __future__ import annotations

import subprocess

from run_agent.decide import mutual_tls

KEY, OTHER = "11" * 32, "22" * 32


def test_the_authority_follows_from_the_gang_and_the_run() -> None:
    one = mutual_tls.authority_key(KEY, "digits")
    assert one == mutual_tls.authority_key(KEY, "digits")
    others = {mutual_tls.authority_key(OTHER, "digits"), mutual_tls.authority_key(KEY, "words")}
    assert len({one, *others}) == 3
    said = subprocess.run(
        ["openssl", "ec", "-noout", "-text"], input=one, capture_output=True, check=True
    )
    assert b"ASN1 OID: prime256v1" in said.stdout
    assert KEY.encode() not in one


def test_a_process_of_another_attempt_has_another_name() -> None:
    found = mutual_tls.variables("/run/tls", "digits", 3)
    assert found["JAX_MTLS_PEER_URI_PREFIX"] == "tpu-fleet://digits/3/"
    # Not the begin of attempt 30's.
    assert not mutual_tls.peers("digits", 30).startswith(mutual_tls.peers("digits", 3))
    assert found["JAX_MTLS_CERT_FILE"] == "/run/tls/certificate.pem"
    assert found["JAX_DISTRIBUTED_VERIFY_SECURE_CREDENTIALS"] == "1"
