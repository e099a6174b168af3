"""Message types that a client knows, by its headers.

The SDKs of Java and .NET make a value of their own of each type in a route, and end at one that they do not know. The
others compare numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from entrepot.protocols.rocketmq import v2_pb2 as v2

_Version = tuple[int, int, int]
_SINCE: Final[Mapping[str, Mapping[int, _Version]]] = {
    "JAVA": {v2.LITE: (5, 1, 0), v2.PRIORITY: (5, 2, 0)},
    "DOTNET": {v2.LITE: (5, 2, 0), v2.PRIORITY: (5, 2, 0)},
}
"""First version that knows a type, by `x-mq-language`. Types that are not listed have always been there."""
_VERSION: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")


def knows(language: str, version: str, kind: int) -> bool:
    """True if a client of this language and version knows a message type. One that does not tell its version does not
    know the later ones."""
    since = _SINCE.get(language.upper(), {}).get(kind)
    if since is None:
        return True
    told = _VERSION.match(version)
    return told is not None and tuple(map(int, told.groups())) >= since
