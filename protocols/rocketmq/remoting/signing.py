"""Signatures of requests (RocketMQ's ACL 1.0 and 2.0): HMAC-SHA1 over the values of all fields in the order of their
names, and the body.  Any field that is added later breaks the signature."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hmac import digest

ACCESS_KEY, SECURITY_TOKEN, SIGNATURE = "AccessKey", "SecurityToken", "Signature"


def signed(
    fields: Mapping[str, str], body: bytes, access_key: str, secret: str, session_token: str = ""
) -> dict[str, str]:
    """Return the fields with the key, the token if there is one, and the signature."""
    found = {**fields, ACCESS_KEY: access_key}
    if session_token:
        found[SECURITY_TOKEN] = session_token
    found[SIGNATURE] = signature_of(found, body, secret)
    return found


def signature_of(fields: Mapping[str, str], body: bytes, secret: str) -> str:
    """Return the signature of fields and a body.  Names are in the order of their UTF-16 units, as Java sorts."""
    names = sorted((name for name in fields if name != SIGNATURE), key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in names).encode() + body
    return b64encode(digest(secret.encode(), content, "sha1")).decode("ascii")
