"""SelfDescription: the settings of a client in its Telemetry stream, bounded, for operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from entrepot.protocols.rocketmq import v2_pb2 as v2

MAX_TOPICS: Final = 64
"""Kept topics of one client."""
MAX_TEXT: Final = 255
"""Kept characters of each text."""


@dataclass(frozen=True, slots=True)
class SelfDescription:
    """A client's words; all empty at first."""

    kind: str = ""
    group: str = ""
    topics: tuple[tuple[str, str], ...] = ()
    language: str = ""
    version: str = ""
    hostname: str = ""


def described(said: v2.Settings) -> SelfDescription:
    """The description in a client's settings."""
    if said.WhichOneof("pub_sub") == "publishing":
        topics: Iterable[tuple[str, str]] = ((_name(topic), "") for topic in said.publishing.topics)
    else:
        topics = (
            (_name(each.topic), each.expression.expression[:MAX_TEXT]) for each in said.subscription.subscriptions
        )
    agent = said.user_agent
    return SelfDescription(
        _words(v2.ClientType.items(), said.client_type),
        _name(said.subscription.group),
        tuple(islice(topics, MAX_TOPICS)),
        _words(v2.Language.items(), agent.language),
        agent.version[:MAX_TEXT],
        agent.hostname[:MAX_TEXT],
    )


def _name(resource: v2.Resource) -> str:
    namespace = resource.resource_namespace[:MAX_TEXT]
    return f"{namespace}/{resource.name[:MAX_TEXT]}" if namespace else resource.name[:MAX_TEXT]


def _words(values: Iterable[tuple[str, int]], number: int) -> str:
    """The name of an enumeration's value in lower case with hyphens; empty where it is unspecified or unknown."""
    name = next((name for name, value in values if value == number and number), "")
    return name.lower().replace("_", "-")
