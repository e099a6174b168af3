"""Password hashes of RabbitMQ, as its definitions have them: base64 of a salt of four bytes and a digest.

The digest is that of the salt and the password (RabbitMQ's `rabbit_password`).  It is made fast, so it protects a
stolen record less than argon2id does: a new password replaces it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError

from entrepot.domain.errors import Code, EntrepotError

SHA256: Final = "rabbit_password_hashing_sha256"
"""Algorithm of a hash that names none."""
SHA512: Final = "rabbit_password_hashing_sha512"
ARGON2ID: Final = "argon2id"
"""Name of our own algorithm in definitions that go out; RabbitMQ knows none of that name."""
SALT_BYTES: Final = 4
MAX_HASH_CHARACTERS: Final = 512
MAX_ARGON2_KIB: Final = 1024 * 1024
MAX_ARGON2_PASSES: Final = 64
"""Largest cost of an argon2id hash that is taken in: each login pays it."""
_DIGESTS: Final[Mapping[str, tuple[Callable[[bytes], Any], int]]] = {
    SHA256: (hashlib.sha256, 32),
    SHA512: (hashlib.sha512, 64),
}
_MARK: Final = "$"


def kept_hash(password_hash: str, algorithm: str) -> str:
    """Return the form in which a hash is kept, with its algorithm.  Raises BAD_REQUEST for what no password fits."""
    if len(password_hash) > MAX_HASH_CHARACTERS:
        raise _refusal("is too long")
    if algorithm == ARGON2ID:
        _check_argon2(password_hash)
        return password_hash
    if algorithm not in _DIGESTS:
        raise EntrepotError(Code.BAD_REQUEST, f"hashing_algorithm: {algorithm[:80]!r} is not known here")
    try:
        raw = base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        raise _refusal("is not base64") from None
    if len(raw) != SALT_BYTES + _DIGESTS[algorithm][1]:
        raise _refusal(f"is none of {algorithm}: that has {SALT_BYTES + _DIGESTS[algorithm][1]} bytes")
    return f"{_MARK}{algorithm}{_MARK}{password_hash}"


def shown_hash(kept: str) -> tuple[str, str]:
    """Return a kept hash and its algorithm as definitions tell them."""
    algorithm, _, plain = kept.removeprefix(_MARK).partition(_MARK)
    return (plain, algorithm) if algorithm in _DIGESTS else (kept, ARGON2ID)


def is_rabbitmqs(kept: str) -> bool:
    """Return True for a hash of RabbitMQ."""
    return shown_hash(kept)[1] in _DIGESTS


def is_right(kept: str, password: bytes) -> bool:
    """Return True if a password has this hash of RabbitMQ."""
    plain, algorithm = shown_hash(kept)
    raw = base64.b64decode(plain)
    digest = _DIGESTS[algorithm][0](raw[:SALT_BYTES] + password).digest()
    return hmac.compare_digest(raw[SALT_BYTES:], digest)


def _check_argon2(password_hash: str) -> None:
    try:
        found = extract_parameters(password_hash)
    except InvalidHashError:
        raise _refusal("is none of argon2id") from None
    if found.memory_cost > MAX_ARGON2_KIB or found.time_cost > MAX_ARGON2_PASSES:
        raise _refusal("costs too much at each login")


def _refusal(reason: str) -> EntrepotError:
    return EntrepotError(Code.BAD_REQUEST, f"password_hash: it {reason}")
