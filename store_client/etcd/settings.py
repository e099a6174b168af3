"""EtcdSettings: where etcd's members are, who asks, and how long a call may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import grpc

from entrepot.domain.errors import Code, EntrepotError


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """Members and the root of all keys there.  `root` ends with a slash: roles of etcd are given for it as a prefix.

    An ordinary call has `request_seconds`: a gateway's sign of life lasts 8 s, and must reach another member within it.
    `patience_seconds`: time for a call that goes from member to member.  `probe_seconds`: interval of the questions
    that tell whether watches are current."""

    addresses: tuple[str, ...]
    root: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    request_seconds: float = 2.5
    patience_seconds: float = 8.0
    probe_seconds: float = 2.0

    @property
    def has_tls(self) -> bool:
        return self.ca is not None or self.certificate is not None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return what gRPC needs for TLS; None without it.  Raises BAD_REQUEST for files that cannot be read."""
        if (self.certificate is None) != (self.key is None):
            raise EntrepotError(Code.BAD_REQUEST, "a certificate for etcd and its key belong together")
        if not self.has_tls:
            return None
        try:
            read = [None if path is None else path.read_bytes() for path in (self.ca, self.key, self.certificate)]
        except OSError as error:
            raise EntrepotError(Code.BAD_REQUEST, f"a file for etcd's TLS cannot be read: {error}") from error
        return grpc.ssl_channel_credentials(*read)
