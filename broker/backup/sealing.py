"""Sealing: encryption of a backup's objects by a key in a file.

A log has hashes of passwords, signing secrets of webhooks, and messages. Each object is sealed by AES-256-GCM with a
nonce derived from its bytes and its place, to which it is bound, so that none passes for another, and a run that is
repeated stores the same. The list of them has a MAC.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from entrepot.broker.store.private_files import open_private
from entrepot.domain.errors import Code, CorruptedError, EntrepotError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
OVERHEAD: Final = NONCE_BYTES + 16
_NAME_BYTES: Final = 8


class Seal:
    """The seal of a key. `name` tells keys apart, and nothing about them."""

    def __init__(self, key: bytes) -> None:
        self._key, self._cipher = key, AESGCM(_derived(key, b"objects"))
        self.name = _derived(key, b"name")[:_NAME_BYTES].hex()

    def seal(self, data: bytes, place: str) -> bytes:
        """Return an object's bytes, sealed for its place."""
        said = place.encode() + b"\0" + hashlib.sha256(data).digest()
        nonce = hmac.digest(_derived(self._key, b"nonce"), said, "sha256")[:NONCE_BYTES]
        return nonce + self._cipher.encrypt(nonce, data, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Return what was sealed for this place. Raises CorruptedError for anything else."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise CorruptedError(f"{place} is not what was sealed by this key") from None

    def mac(self, data: bytes) -> str:
        """Return the MAC of a list."""
        return hmac.digest(_derived(self._key, b"list"), data, "sha256").hex()


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.digest(key, b"entrepot backup " + use, hashlib.sha256)


def make_key(path: Path) -> None:
    """Write a new key to a new file, which only its owner reads. Raises OSError."""
    with open(open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as file:
        file.write(f"{secrets.token_hex(KEY_BYTES)}\n")
        file.flush()
        os.fsync(file.fileno())


def seal_of(path: Path) -> Seal:
    """Return the seal of a key's file. Raises BAD_REQUEST for anything but a key, OSError."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise EntrepotError(Code.BAD_REQUEST, f"{path} has no key: {2 * KEY_BYTES} hexadecimal digits are wanted")
    return Seal(key)
