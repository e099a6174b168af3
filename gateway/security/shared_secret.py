"""A secret that all gateways of a store share: the first that needs it makes it, and keeps it as a key-value."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import Final

from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_keys import RETRY_SECONDS

CLUSTER_SECRET_KEY: Final = "cluster/secret"
RANDOM_BYTES: Final = 32
_KEEPS_NONE: Final = frozenset((Code.UNSUPPORTED, Code.STORAGE_FULL))
"""Refusals of a store that keeps no secret: the secret is then this gateway's alone."""


async def shared_secret(key_values: KeyValues, key: str, prefix: str = "", wait_seconds: float = 0) -> str:
    """Return the store's secret of this key, or make one that begins with `prefix`; retry for `wait_seconds` while the
    keeper is away. Raises what the store raises."""
    made = prefix + secrets.token_urlsafe(RANDOM_BYTES)
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_seconds
    while True:
        try:
            return await _kept(key_values, key, made)
        except EntrepotError as error:
            if error.code in _KEEPS_NONE:
                return made
            if error.code not in AWAY or loop.time() >= end:
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def _kept(key_values: KeyValues, key: str, made: str) -> str:
    """Return the kept secret, `made` if there was none. Raises UNAVAILABLE where it has just been removed."""
    (found,) = await key_values.get([key])
    if found is None:
        # None: another gateway was faster, and its secret counts
        await if_unchanged(key_values.write([KeyValueChange(key, made.encode(), ABSENT)]))
        (found,) = await key_values.get([key])
    if found is None:
        raise EntrepotError(Code.UNAVAILABLE, f"the store has not kept the secret {key}")
    return found.value.decode("latin-1")


def derived_key(secret: str, purpose: str) -> bytes:
    """Return a key for one purpose, so that what is signed for another never passes."""
    return hmac.digest(secret.encode(), purpose.encode(), "sha256")
