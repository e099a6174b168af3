"""Signatures of deliveries: the headers of Standard Webhooks (symmetric, version 1)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

SECRET_PREFIX: Final = "whsec_"


def signed_headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return `webhook-id`, `webhook-timestamp` (epoch seconds) and `webhook-signature` of a body. `secret` is `whsec_`
    and the key in Base64."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }
