"""Authentication of both ends of a connection by the cluster's secret.

    client                                  server
    HELLO: role, nonce               ->
                                     <-     CHALLENGE: nonce, proof of the server
    PROOF of the client              ->
                                     <-     WELCOME

A proof is an HMAC of all that both have said, and of the channel: under TLS that is the server's certificate, so that
nobody in between can pass a proof on.  Its key is that of the client's role, made of the secret.  A part may hold the
key of its role alone: then it cannot be another part.  The server proves itself first, to a client that has said
nothing yet.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from typing import Final

import msgspec

from entrepot.protocols.wire.frames import Hello

NONCE_BYTES: Final = 16
MIN_SECRET_BYTES: Final = 16
"""Least length of a secret: proofs are shown to anybody who connects."""
_KEY_BYTES: Final = 32
_PURPOSE: Final = b"entrepot wire 1 "
_encode: Final = msgspec.msgpack.Encoder().encode


class Role(StrEnum):
    """The part that a client is.  Tools are gateways, and jobs that hold more than a job's key; name servers connect to
    nobody."""

    GATEWAY = "gateway"
    JOB = "job"
    BROKER = "broker"
    CONTROLLER = "controller"


class ClusterSecret:
    """The secret of a cluster, of any text; or the key of one role, as `<role>:<hex>`.  Raises ValueError."""

    def __init__(self, text: str) -> None:
        text = text.strip()
        role, colon, key = text.partition(":")
        self._keys: dict[Role, bytes] = {}
        if colon and role in list(Role):
            self._keys[Role(role)] = _key_of(key)
            self.is_whole = False
            return
        root = text.encode()
        if len(root) < MIN_SECRET_BYTES:
            raise ValueError(f"a secret of {len(root)} bytes is too short, it needs {MIN_SECRET_BYTES}")
        self._keys = {each: hmac.digest(root, _PURPOSE + each.encode(), "sha256") for each in Role}
        self.is_whole = True

    @property
    def client_role(self) -> Role:
        """The role of a client of brokers: that of its key, else a gateway."""
        return Role.JOB if Role.GATEWAY not in self._keys and Role.JOB in self._keys else Role.GATEWAY

    def key(self, role: Role) -> bytes:
        """Return the key of a role.  Raises ValueError where it is not held."""
        found = self._keys.get(role)
        if found is None:
            raise ValueError(
                f"this is the key of a {next(iter(self._keys))}, not of a {role}, nor the cluster's secret"
            )
        return found

    def role_key(self, role: Role) -> str:
        """Return the key of a role as text, to be handed on instead of the secret."""
        return f"{role}:{self.key(role).hex()}"


def _key_of(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ValueError(f"the key of a role has {2 * _KEY_BYTES} hexadecimal digits after its colon")
    return key


class Challenge(msgspec.Struct, array_like=True):
    """The server's answer to a HELLO: its nonce, its name, and its proof."""

    nonce: bytes
    who: str
    proof: bytes


def proof(key: bytes, side: str, hello: Hello, nonce: bytes, who: str, channel: bytes) -> bytes:
    """Return the proof of one side, `client` or `server`.  `nonce`, `who`: of the server.  `channel`: what only these
    two ends of a connection share, or nothing."""
    said = [side, hello.versions, hello.who, hello.cluster, hello.role, hello.nonce, nonce, who, channel]
    return hmac.digest(key, _encode(said), "sha256")


def is_proof(given: bytes, expected: bytes) -> bool:
    """True if a proof is the expected one; takes as long whatever it is."""
    return hmac.compare_digest(given, expected)
