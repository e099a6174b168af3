"""Provenance: which gateway made an id, and, on traced topics, which door and client a message came by.

A gateway writes six random bytes into every id that it makes.  At its start it writes them down with its name, so that
the gateway of any message is known at no cost to publishing.  Door and client are a property of each message of a
traced topic; the others carry nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from entrepot.domain.access.model import Principal
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.journey.taking_in import TakenIn
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.member.identity import Identity

ORIGINS_KEY: Final = "gateway-origins"
MAX_ORIGINS: Final = 512
"""Starts of gateways that are remembered: about 24 KiB."""
TRIES: Final = 10
"""Tries to write against other gateways that start at the same time."""
ORIGIN: Final = slice(6, 12)
"""Place of a gateway's bytes in the ids that it makes."""
ID_SIZE: Final = 16

log = structlog.get_logger(__name__)


class _Origin(msgspec.Struct):
    origin: str
    name: str


_decode: Final = msgspec.json.Decoder(list[_Origin]).decode


def consumer_at(who: str, gateway: str) -> str:
    """Return the words for a consumer of a gateway, for `PopRequest.consumer`."""
    return f"{who} at {gateway}" if gateway else who


class Provenance:
    """The provenance of one gateway's messages.  `topics`: those with tracing on, whose messages are marked."""

    def __init__(self, store: Store, identity: Identity) -> None:
        self.topics: set[str] = set()
        self.gateway = ""
        self._store, self._identity = store, identity
        identity.on_renewed.append(self._introduce_again)
        for topic in store.topology.topics():
            self._look(topic.name)
        self.close = store.topology.watch_topics(self._look)

    def _look(self, name: str) -> None:
        topic = self._store.topology.topic(name)
        if topic is not None and topic.trace:
            self.topics.add(name)
        else:
            self.topics.discard(name)

    def mark(self, messages: Sequence[Message], door: str, client: str, principal: Principal | None) -> None:
        """Write down the way in of messages of traced topics: the client's name, and the address of its principal."""
        text = ""
        for message in messages:
            if message.topic in self.topics:
                text = text or TakenIn(door, self.gateway, _with_source(client, principal)).text
                message.system = {**message.system, SystemProperty.TAKEN_IN: text}

    def _introduce_again(self, before: str) -> None:
        if self.gateway:
            background().start("name of this gateway", self.introduce(self.gateway))

    async def introduce(self, name: str) -> None:
        """Write this gateway's name down.  Without it, journeys do not tell the gateway."""
        self.gateway = name.replace(" ", "_")
        try:
            for _ in range(TRIES):
                if await self._write(self.gateway):
                    return
            log.warning("gave up writing the gateway's name: others changed the list meanwhile", gateway=name)
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                log.warning("could not write the gateway's name", gateway=name, problem=error.message)

    async def _write(self, name: str) -> bool:
        [kept] = await self._store.key_values.get([ORIGINS_KEY])
        origin = self._identity.incarnation
        known = [] if kept is None else [each for each in origins_in(kept.value) if each[0] != origin]
        value = msgspec.json.encode([_Origin(*each) for each in [*known, (origin, name)][-MAX_ORIGINS:]])
        change = KeyValueChange(ORIGINS_KEY, value, ABSENT if kept is None else kept.version)
        return await if_unchanged(self._store.key_values.write([change])) is not None


def _with_source(client: str, principal: Principal | None) -> str:
    return client if principal is None or not principal.source else f"{client} from {principal.source}"


def origins_in(value: bytes) -> list[tuple[str, str]]:
    """Return the gateways' bytes, in hexadecimal, with their names; none for a value that cannot be read."""
    try:
        return [(each.origin, each.name) for each in _decode(value)]
    except msgspec.MsgspecError:
        return []


async def gateway_of(store: Store, message_id: bytes) -> str:
    """Return the name of the gateway that made an id; empty where it is not known."""
    if len(message_id) != ID_SIZE:
        return ""
    [kept] = await store.key_values.get([ORIGINS_KEY])
    return "" if kept is None else dict(origins_in(kept.value)).get(message_id[ORIGIN].hex(), "")
