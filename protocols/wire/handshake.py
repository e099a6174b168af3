"""The first frames of a connection: versions, cluster, and the proofs of the cluster's secret (`authentication`).

Each side takes the other's frames, one at a time: `receive(kind, payload)` returns its answer, and what has come of it
once all is said.  A breach of the rules raises `RemotingError`.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from entrepot.protocols.wire.authentication import NONCE_BYTES, Challenge, ClusterSecret, Role, is_proof, proof
from entrepot.protocols.wire.frames import VERSION, FrameKind, Hello, RemotingError, Welcome, frame

FILE: Final = "cluster.secret_file"
_encode: Final = msgspec.msgpack.Encoder().encode
_Greeting = TypeVar("_Greeting", Hello, Welcome, Challenge)


def _read(kind: int, payload: bytes, wanted: FrameKind, greeting: type[_Greeting]) -> _Greeting:
    name = wanted.name.lower()
    if kind != wanted:
        raise RemotingError(f"{FrameKind(kind).name} before the {name}")
    try:
        return msgspec.msgpack.decode(payload, type=greeting)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemotingError(f"the {name} cannot be read: {error}") from error


class ClientHandshake:
    """The client's side.  With a `secret`, the server has to prove that it knows it, too, unless it `may_be_without`.
    `channel`: what both ends share, as `authentication.proof` has it."""

    def __init__(self, hello: Hello, secret: ClusterSecret | None, channel: bytes, *, may_be_without: bool) -> None:
        self._hello, self._secret, self._channel = hello, secret, channel
        self._is_proved, self._may_be_without = False, may_be_without or secret is None
        self.first = frame(FrameKind.HELLO, 0, _encode(hello))

    def receive(self, kind: int, payload: bytes) -> tuple[bytes, Welcome | None]:
        if kind == FrameKind.CHALLENGE:
            return self._challenged(payload), None
        welcome = _read(kind, payload, FrameKind.WELCOME, Welcome)
        if not (self._is_proved or self._may_be_without):
            raise RemotingError(f"it does not ask for the cluster's secret that is given here ({FILE})")
        if welcome.version != VERSION:
            raise RemotingError(f"the server speaks version {welcome.version} of the wire, we speak {VERSION}")
        return b"", welcome

    def _challenged(self, payload: bytes) -> bytes:
        """Check the server's proof, and give our own."""
        if self._secret is None:
            raise RemotingError(f"it asks for the cluster's secret, and there is none here ({FILE})")
        challenge = _read(FrameKind.CHALLENGE, payload, FrameKind.CHALLENGE, Challenge)
        key, hello, said = self._secret.key(Role(self._hello.role)), self._hello, (challenge.nonce, challenge.who)
        expected = proof(key, "server", hello, *said, self._channel)
        if self._is_proved or len(challenge.nonce) != NONCE_BYTES or not is_proof(challenge.proof, expected):
            raise RemotingError(f"it does not know the cluster's secret that is given here ({FILE})")
        self._is_proved = True
        return frame(FrameKind.PROOF, 0, proof(key, "client", hello, *said, self._channel))


class ServerHandshake:
    """The server's side.  With a `secret`, clients have to prove that they know it, unless they `may_be_without`.
    `nonce`: random bytes.  `channel`: as of the client.  `role`: the part that the client has proved to be, or None."""

    def __init__(
        self, welcome: Welcome, secret: ClusterSecret | None, nonce: bytes, channel: bytes, *, may_be_without: bool
    ) -> None:
        self._own, self._secret, self._nonce, self._channel = welcome, secret, nonce, channel
        self._may_be_without = may_be_without
        self._challenged: Hello | None = None
        self.role: Role | None = None

    def receive(self, kind: int, payload: bytes) -> tuple[bytes, Hello | None]:
        if self._challenged is not None:
            return self._proved(kind, payload, self._challenged)
        hello = _read(kind, payload, FrameKind.HELLO, Hello)
        if VERSION not in hello.versions:
            raise RemotingError(f"no common version of the wire: yours are {hello.versions[:16]}, ours is {VERSION}")
        if self._own.cluster != hello.cluster:
            raise RemotingError(f"this is cluster {self._own.cluster!r}, not {hello.cluster[:80]!r}")
        if self._secret is None or (self._may_be_without and not hello.role):
            return self._welcome(), hello
        if hello.role not in list(Role) or len(hello.nonce) != NONCE_BYTES:
            raise RemotingError(f"the cluster has a secret, and you have none ({FILE})")
        self._challenged = hello
        challenge = Challenge(self._nonce, self._own.who, self._proof("server", hello))
        return frame(FrameKind.CHALLENGE, 0, _encode(challenge)), None

    def _proof(self, side: str, hello: Hello) -> bytes:
        assert self._secret is not None, "proofs are made of it"
        return proof(self._secret.key(Role(hello.role)), side, hello, self._nonce, self._own.who, self._channel)

    def _proved(self, kind: int, payload: bytes, hello: Hello) -> tuple[bytes, Hello | None]:
        if kind != FrameKind.PROOF:
            raise RemotingError(f"{FrameKind(kind).name} before the proof")
        if not is_proof(payload, self._proof("client", hello)):
            raise RemotingError(f"you do not know the cluster's secret ({FILE})")
        self.role = Role(hello.role)
        return self._welcome(), hello

    def _welcome(self) -> bytes:
        return frame(FrameKind.WELCOME, 0, _encode(self._own))
