"""What a source says of a certificate, and of whom: the client's, never the proxy's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from entrepot.gateway.transport.certificates import CertificateFiles, ServerCertificates
from entrepot.gateway.transport.proxy_trust import ProxyTrust
from entrepot.gateway.transport.source import ClientCertificate, Source, certificate_of, source_of
from entrepot.protocols.proxy import ProxyHeader, ProxyTls
from tests.support.processes.certificates import TestAuthority

PEERCERT = {
    "subject": ((("organizationName", "o"),), (("commonName", "device-1"),)),
    "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://x/y"), ("IP Address", "10.0.0.1"), ("DNS", "b.example")),
}


class Transport:
    """What a transport tells."""

    def __init__(self, **info: object) -> None:
        self._info = info

    def get_extra_info(self, name: str) -> object:
        return self._info.get(name)


def source(header: ProxyHeader | None, **info: object) -> Source:
    transport: Any = Transport(peername=("10.0.0.9", 5), **info)
    return source_of(transport, "mqtts", header)


def test_names_of_a_certificate() -> None:
    expected = ClientCertificate("device-1", ("spiffe://x/y",), ("a.example", "b.example"))
    assert certificate_of(PEERCERT) == expected
    assert certificate_of({}) is None
    assert source(None, ssl_object=1, peercert=PEERCERT) == Source("10.0.0.9", 5, True, expected, "mqtts")
    assert source(None) == Source("10.0.0.9", 5, False, None, "mqtts")


def test_what_a_proxy_says_goes_before_what_the_socket_says() -> None:
    through = ProxyHeader(("1.2.3.4", 5), ("6.7.8.9", 10))
    found = source(through, ssl_object=1, peercert=PEERCERT)
    assert (found.host, found.is_tls) == ("1.2.3.4", True)
    assert found.certificate == certificate_of(PEERCERT), "the client's own TLS, passed on as it is"
    for name, expected in (("me", ClientCertificate("me")), ("", None)):
        ended = ProxyHeader(("1.2.3.4", 5), ("6.7.8.9", 10), ProxyTls(name))
        for info in ({}, {"ssl_object": 1, "peercert": PEERCERT}):
            assert source(ended, **info) == Source("1.2.3.4", 5, True, expected, "mqtts")
    assert source(ProxyHeader()).host == "10.0.0.9", "it speaks for itself"


def test_whom_to_trust() -> None:
    trust = ProxyTrust("optional", ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"])
    trusted = ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "192.0.2.1"]
    assert [host for host in [*trusted, "11.0.0.1", "2001:db9::1", "192.0.2.2"] if trust.trusts(host)] == trusted


def test_certificates_as_editors_save_them(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    pair, ca = authority.issue("pair"), tmp_path / "ca.pem"
    pair.write_text(pair.read_text(), encoding="utf-8-sig")
    ca.write_text(authority.file.read_text(), encoding="utf-8-sig")
    ServerCertificates(CertificateFiles(pair, None, ca, "required"))
    ca.write_text(authority.file.read_text(), encoding="utf-16")
    with pytest.raises(OSError, match=rf"{ca}: it is UTF-16 or UTF-32 text: save it as UTF-8 \(one of {pair}"):
        ServerCertificates(CertificateFiles(pair, None, ca, "required"))


@pytest.mark.parametrize("missing", ["certificate", "key", "ca"])
def test_files_that_cannot_be_used_keep_the_context(tmp_path: Path, missing: str) -> None:
    authority = TestAuthority(tmp_path)
    pair = authority.issue("pair")
    files: dict[str, Any] = {"certificate": pair, "key": tmp_path / "key.pem", "ca": tmp_path / "ca.pem"}
    files["key"].write_bytes(pair.read_bytes())
    files["ca"].write_bytes(authority.file.read_bytes())
    certificates = ServerCertificates(CertificateFiles(**files, client_certificates="required"))
    first = certificates.context
    assert not certificates.reload_if_changed()
    kept = files[missing].read_bytes()
    files[missing].unlink()
    with structlog.testing.capture_logs() as logs:
        assert not certificates.reload_if_changed()
        assert not certificates.reload_if_changed()
    assert [entry["log_level"] for entry in logs] == ["error"], "said once"
    assert certificates.context is first
    files[missing].write_bytes(kept)
    assert certificates.reload_if_changed()
    assert certificates.context is not first
