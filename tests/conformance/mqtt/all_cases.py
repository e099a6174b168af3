"""All cases together, each name once."""

from __future__ import annotations

from typing import Final

from tests.conformance.mqtt.cases import connecting, limits, malformed, publishing, retaining, sessions, subscribing
from tests.conformance.mqtt.script import Case

CASES: Final[list[Case]] = [
    *connecting.CASES,
    *sessions.CASES,
    *publishing.CASES,
    *subscribing.CASES,
    *retaining.CASES,
    *limits.CASES,
    *malformed.CASES,
]
BY_NAME: Final = {case.name: case for case in CASES}
