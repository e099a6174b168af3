"""What is wrong with a URL that somebody has written, in a few words."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit


def fault_of_url(text: str, schemes: Collection[str]) -> str | None:
    """Why a text is no absolute URL with one of these schemes and a host; None: it is one.

    Blanks and control characters are never part of a URL (RFC 3986 2); what reads URLs drops some of them in silence.
    """
    for character in text:
        if character.isspace():
            return "a URL has no blanks"
        if not character.isprintable():
            return "a URL has no control characters"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "the brackets of its host do not match"
    if parts.scheme not in schemes:
        return f"a URL with {' or '.join(schemes)} is wanted"
    if not parts.hostname:
        return "the URL names no host"
    try:
        port = parts.port
    except ValueError:
        return "its port is no number from 1 to 65535"
    return "its port is no number from 1 to 65535" if port == 0 else None
