"""A self-made certificate: TLS for a listener that was given none.  It hides the traffic, and proves nothing.

Clients that check certificates need its fingerprint, or one of an authority.  It is made once and kept in a private
file; several processes with the same file have the same one.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import Final

from entrepot.gateway.security.private_file import create_private

FILE_NAME: Final = "grpc-certificate.pem"
COMMON_NAME: Final = "entrepot, self-made"
YEARS: Final = 20
"""Life of a certificate.  Clients pin it by its fingerprint, if at all, so it does not change by itself."""


def self_made_certificate(path: Path) -> str:
    """Make a certificate with its key in a file, unless one is there; return its fingerprint.  Raises OSError."""
    if not path.exists():
        with contextlib.suppress(FileExistsError):  # another process was faster
            create_private(path, _made())
    return fingerprint(path)


def fingerprint(path: Path) -> str:
    """Return the SHA-256 fingerprint of the first certificate in a file, as other programs show it.  Raises OSError."""
    text = path.read_text("ascii", "replace")
    begin, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    if begin < 0 or end < begin:
        raise OSError(f"there is no certificate in {path}: remove the file to have one made")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[begin : end + len(ssl.PEM_FOOTER)])).digest()
    return digest.hex(":").upper()


def _made() -> str:
    """Return a key and a certificate in PEM."""
    # the library takes a tenth of a second to load: only the first start pays for it
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, COMMON_NAME)])
    hosts = dict.fromkeys(("localhost", socket.gethostname()))
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts if host.isascii() and host]
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of clients differ
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (private + made.public_bytes(Encoding.PEM)).decode("ascii").rstrip()
