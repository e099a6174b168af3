"""Retained messages: list by filter, fetch, delete.  MQTT names are those of the default namespace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.message import SystemProperty
from entrepot.domain.retained import NEVER, RetainedMessage, expiry_of
from entrepot.domain.routing.topic_filter import MAX_TOPIC_BYTES, is_valid_filter
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import Right
from entrepot.gateway.operations.row.shapes import Continued, Flag, Part, PlainName, Query, Raw, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.operations.row.seen import Contents
    from entrepot.gateway.retained.retained import RetainedMessages

MAX_LIMIT: Final = 1000
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w-]+=[\w.+-]+)*", re.ASCII)
_NOT_FOR_BROWSERS: Final = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}
"""A publisher chooses body and media type, so a browser must not run them."""
_Name = Annotated[str, Meta(max_length=MAX_TOPIC_BYTES)]
_TIME: Final = "2026-12-01T08:00:00.000Z"


def _named(action: Action) -> Right:
    """Return the right on one name: reading needs the right to subscribe, deleting the right to publish."""
    return Right(lambda own, asked: [Need(action, ResourceType.TOPIC, asked.plain["name"])])


def _matching(action: Action) -> Right:
    """Return the same on all names of the query's filter."""
    return Right(lambda own, asked: [Need(action, ResourceType.TOPIC, asked.query.get("filter", EVERYTHING))])


class RetainedMessageShown(Shown, frozen=True):
    """The message retained for a name, without its body"""

    name: str
    topic: str
    id: str
    size: int
    qos: int
    content_type: str | None
    born_time: Time | None
    expires_at: Time | None


shown_as(
    RetainedMessageShown(
        "factory/line1/temp",
        "factory",
        "019AF2C4A48D1549BA4F1FC100000000",
        4,
        1,
        "application/json",
        _TIME,
        _TIME,
    )
)


class RetainedDeleted(Part, frozen=True):
    """`deleted`: number of messages."""

    deleted: int


shown_as(RetainedDeleted(12))


class RetainedAsked(Query, frozen=True):
    filter: Annotated[_Name, Flag("MQTT topic filter.", "FILTER")] = "#"
    after: Annotated[
        _Name,
        Meta(description="Name after which the list begins"),
        Flag("Last name of an earlier list, to continue there.", "NAME"),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of messages.")] = 100


class RetainedToDelete(Query, frozen=True):
    filter: _Name


RETAINED: Final = Noun(
    "retained", "/retained", "retained message", "Retained messages of a running server.", group="retained"
)


class Retained:
    """The operations of retained messages."""

    def __init__(self, retained: RetainedMessages, contents: Contents) -> None:
        self._retained, self._contents = retained, contents

    @RETAINED.get(
        "",
        "listRetained",
        "List retained messages that match a filter, ordered by levels",
        _matching(Action.SUB),
        shows={"next": "factory/a"},
        words=Words(
            "list",
            "List retained messages, ordered by name.",
            columns=("name", "size", "qos", "published", "expires"),
            cells=("name", "size", "qos", "bornTime", "expiresAt"),
            continued_by="--after",
        ),
    )
    async def listed(self, query: RetainedAsked) -> Continued[RetainedMessageShown]:
        _check_filter(query.filter)
        names = await self._names(query.filter, query.after, query.limit + 1)
        page = names[: query.limit]
        value = [_shown(kept) async for batch in self._retained.batches(page) for kept in batch]
        return Continued(value, page[-1] if len(names) > query.limit else None)

    @RETAINED.get(
        "/{name}",
        "getRetained",
        "Get the body of a retained message",
        _named(Action.SUB),
        outcome="The body, with the type that its publisher gave it",
        shows={"*/*": "21.5"},
    )
    async def body(self, name: PlainName, asked: Asked) -> Raw:
        kept = await self._kept(name)
        body = self._contents.body(asked.principal, kept)
        self._contents.note(asked.principal, kept.topic, "1 retained body")
        return Raw(body, _media_type(kept), _NOT_FOR_BROWSERS)

    @RETAINED.delete(
        "",
        "deleteRetainedMatching",
        "Delete retained messages that match a filter",
        _matching(Action.PUB),
        change="retained messages deleted",
    )
    async def delete_matching(self, query: RetainedToDelete, asked: Asked) -> RetainedDeleted:
        _check_filter(query.filter)
        deleted = 0
        from entrepot.gateway.messaging.yielding import with_pauses  # no command pays for it

        async for page in with_pauses(self._retained.pages(query.filter)):
            deleted += await self._retained.delete(page) if page else 0
        asked.tell(f"retained {query.filter}", f"{deleted} deleted")
        return RetainedDeleted(deleted)

    @RETAINED.delete(
        "/{name}",
        "deleteRetained",
        "Delete a retained message",
        _named(Action.PUB),
        change="retained message deleted",
    )
    async def delete(self, name: PlainName) -> None:
        kept = await self._kept(name)
        await self._retained.delete([kept.sub_topic])

    async def _names(self, topic_filter: str, after: str, count: int) -> list[str]:
        found: list[str] = []
        from entrepot.gateway.messaging.yielding import with_pauses  # no command pays for it

        async for page in with_pauses(self._retained.pages(topic_filter, after)):
            found += page
            if len(found) >= count:
                break
        return found[:count]

    async def _kept(self, name: str) -> RetainedMessage:
        found = await self._retained.read([name])
        if not found:
            raise MissingError("retained-not-found", "Nothing is retained", f"nothing is retained for {name[:80]!r}")
        return found[0]


def _check_filter(topic_filter: str) -> None:
    if not is_valid_filter(topic_filter):
        raise bad_request(f"filter: {topic_filter[:80]!r} is not an MQTT topic filter")


def _media_type(kept: RetainedMessage) -> str:
    declared = kept.system_text(SystemProperty.CONTENT_TYPE)
    if declared is not None and _MEDIA_TYPE.fullmatch(declared):
        return declared
    return _TEXT if kept.system_text(SystemProperty.PAYLOAD_IS_TEXT) == "1" else _BYTES


def _shown(kept: RetainedMessage) -> RetainedMessageShown:
    expires_at_ms = expiry_of(kept)
    return RetainedMessageShown(
        kept.sub_topic,
        kept.topic,
        id_text(kept.message_id),
        len(kept.body),
        kept.qos,
        kept.system_text(SystemProperty.CONTENT_TYPE),
        time_shape(kept.born_time_ms),
        time_shape(min(expires_at_ms, MAX_EPOCH_MS)) if expires_at_ms != NEVER else None,
    )
