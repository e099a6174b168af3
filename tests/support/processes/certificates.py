"""Certificates of an authority that lives as long as a test."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOSTS = ("localhost", "127.0.0.1")


class TestAuthority:
    """An authority, its file, and files of what it signs."""

    __test__ = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.file = directory / "authority.pem"
        self.authority.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str, *hosts: str, common_name: str | None = None) -> Path:
        """A certificate with its key in one file; one that is there is replaced at once."""
        issued = self.authority.issue_cert(*(hosts or HOSTS), common_name=common_name)
        path, draft = self.directory / f"{name}.pem", self.directory / f"{name}.draft"
        issued.private_key_and_cert_chain_pem.write_to_path(str(draft))
        os.replace(draft, path)
        return path

    def revoke(self, *certificates: Path, days: int = 1) -> Path:
        """A list of revoked certificates, in one file that is replaced at once.  `days`: until it is over."""
        own, now = x509.load_pem_x509_certificate(self.authority.cert_pem.bytes()), datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(own.subject).last_update(now - timedelta(days=9))
        builder = builder.next_update(now + timedelta(days=days))
        for each in certificates:
            number = x509.load_pem_x509_certificates(each.read_bytes())[0].serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
            builder = builder.add_revoked_certificate(revoked)
        key = serialization.load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        signed = builder.sign(cast("ec.EllipticCurvePrivateKey", key), hashes.SHA256())
        path, draft = self.directory / "revoked.pem", self.directory / "revoked.draft"
        draft.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        os.replace(draft, path)
        return path

    def client_context(self, certificate: Path | None = None) -> ssl.SSLContext:
        """What a client needs that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
