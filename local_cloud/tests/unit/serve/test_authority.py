"""The certificate of the real names."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from tpu_local_cloud.machines.layout import Layout
from tpu_local_cloud.serve.authority import papers


def test_machines_trust_what_the_server_made(tmp_path: Path) -> None:
    assert Layout(tmp_path).authority == papers(tmp_path / "tls").authority


def test_what_a_strict_client_asks_of_the_papers(tmp_path: Path) -> None:
    files = papers(tmp_path / "tls")
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    server = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    for oid in (ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE):
        assert authority.extensions.get_extension_for_oid(oid).critical
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "storage.googleapis.com" in names.get_values_for_type(x509.DNSName)
    assert "*.storage.googleapis.com" in names.get_values_for_type(x509.DNSName)
    again = papers(tmp_path / "tls")
    assert again == files
    assert [path.name for path in tmp_path.iterdir()] == ["tls"]
