"""The outside of JWTs: what is known of them where no issuer is trusted, and their library is not loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.domain.access.model import Statement

MAX_TOKEN_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The verified claims of a token."""

    name: str
    expires_at_ms: int
    statements: tuple[Statement, ...]


def is_token_shaped(secret: bytes) -> bool:
    """True if it may be a JWT: three parts, the first of which is JSON in Base64."""
    return secret.startswith(b"eyJ") and secret.count(b".") == 2 and len(secret) <= MAX_TOKEN_BYTES
