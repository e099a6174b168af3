"""Checks of a URL, with a short reason for the user."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit


def fault_of_url(text: str, schemes: Collection[str]) -> str | None:
    """Return the reason why a text is not an absolute URL with one of these schemes and a host; None if it is one.  A
    URL never has blanks or control characters (RFC 3986 2); parsers drop some of them silently."""
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


def host_of(url: str) -> str:
    """The scheme, host and port of a URL: its path and query may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
