"""Checks of a URL, with a short reason for the user."""

from __future__ import annotations

import re
import string
from collections.abc import Collection
from typing import Final
from urllib.parse import quote, urlsplit

_AUTHORITY_AND_TARGET: Final = re.compile(r"([^/?#]*)([^#]*)")
_AS_GIVEN: Final = string.printable
"""Characters that stay in a target: all of ASCII, since a URL has no blanks and no control characters."""


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
        return "its port is not a number from 1 to 65535"
    return "its port is not a number from 1 to 65535" if port == 0 else None


def authority_of(url: str) -> str:
    """The authority of an absolute URL, as given: host, port and user information."""
    return _split(url)[0]


def target_of(url: str) -> str:
    """The path and query of an absolute URL, as given.  A reserved character and its percent-encoded octet are not the
    same (RFC 3986 2.2), and a signature may cover either.  Characters beyond ASCII become octets of UTF-8."""
    target = quote(_split(url)[1], safe=_AS_GIVEN)
    return target if target.startswith("/") else "/" + target


def _split(url: str) -> tuple[str, str]:
    found = _AUTHORITY_AND_TARGET.match(url.partition("://")[2])
    assert found is not None  # it matches any text
    return found[1], found[2]


def host_of(url: str) -> str:
    """The scheme, host and port of a URL: its path and query may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
