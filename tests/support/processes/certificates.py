"""Certificates of an authority that lives as long as a test."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import trustme

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

    def client_context(self, certificate: Path | None = None) -> ssl.SSLContext:
        """What a client needs that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
