"""A secret that all gateways of a store share: the first that needs it makes it, and keeps it as a key-value."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.ports import KeyValues

CLUSTER_SECRET_KEY: Final = "cluster/secret"
RANDOM_BYTES: Final = 32
_KEEPS_NONE: Final = frozenset((Code.UNSUPPORTED, Code.STORAGE_FULL))
"""Refusals of a store that keeps no secret: the secret is then this gateway's alone."""


async def shared_secret(key_values: KeyValues, key: str, prefix: str = "") -> str:
    """Return the store's secret of this key, or make one that begins with `prefix`. Raises what the store raises."""
    made = prefix + secrets.token_urlsafe(RANDOM_BYTES)
    try:
        (found,) = await key_values.get([key])
        if found is None:
            with contextlib.suppress(EntrepotError):  # another gateway was faster: its secret counts
                await key_values.write([KeyValueChange(key, made.encode(), ABSENT)])
            (found,) = await key_values.get([key])
    except EntrepotError as error:
        if error.code not in _KEEPS_NONE:
            raise
        return made
    if found is None:
        raise EntrepotError(Code.UNAVAILABLE, f"the store has not kept the secret {key}")
    return found.value.decode("latin-1")


def derived_key(secret: str, purpose: str) -> bytes:
    """Return a key for one purpose, so that what is signed for another never passes."""
    return hmac.digest(secret.encode(), purpose.encode(), "sha256")
