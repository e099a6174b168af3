"""Stored messages: search by topic, key and time, show by id, and consumption state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.names import is_hidden_topic, split_name
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    ConsumptionState,
    HopKind,
    MessageConsumer,
    MessageHop,
    MessageQuery,
)
from entrepot.gateway.operations.nouns.full_message import FullMessageShown, full_fields
from entrepot.gateway.operations.nouns.message_head import MessageShown, message_shown
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.ids import ids_of
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import CONTENTS_IN_QUERY, fixed
from entrepot.gateway.operations.row.shapes import (
    MAX_CURSOR_LENGTH,
    Continued,
    Flag,
    Listed,
    Part,
    PlainName,
    Query,
    Time,
    one_of,
    shown_as,
)
from entrepot.gateway.operations.row.times import epoch_ms_of, time_shape

if TYPE_CHECKING:
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.row.seen import Contents

DEFAULT_LIMIT: Final = 32
STATES: Final[Mapping[ConsumptionState, str]] = {
    ConsumptionState.NOT_YET: "notYet",
    ConsumptionState.IN_FLIGHT: "inFlight",
    ConsumptionState.CONSUMED: "consumed",
    ConsumptionState.FILTERED: "filtered",
    ConsumptionState.DEAD_LETTERED: "deadLettered",
}
_HOPS: Final[Mapping[HopKind, str]] = {
    HopKind.STORED: "stored",
    HopKind.DELIVERED: "delivered",
    HopKind.ACKNOWLEDGED: "acknowledged",
    HopKind.RETRIED: "retried",
    HopKind.DEAD_LETTERED: "deadLettered",
}
_ANY_CONTENTS: Final = fixed((Action.SUB, ResourceType.TOPIC))
"""Reading every topic, because the path names none."""
_Named = Annotated[str, Meta(min_length=1)]
_Cursor = Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR_LENGTH)]


class FoundMessageShown(FullMessageShown, frozen=True, kw_only=True):
    """All that is kept of a message, and how many others have its id"""

    others: int


class GroupState(Part, frozen=True):
    group: str
    state: Annotated[str, one_of(STATES.values())]
    attempts: int


class Hop(Part, frozen=True):
    kind: Annotated[str, one_of(_HOPS.values())]
    time: Time | None
    topic: str
    namespace: str
    queue_id: int
    queue_offset: int
    group: str | None
    attempt: int | None
    detail: str | None
    consumer: str | None


shown_as(GroupState("workers", "notYet", 1))
shown_as(
    Hop(
        "stored",
        "2026-12-01T08:00:00.000Z",
        "orders",
        "default",
        2,
        41,
        "workers",
        1,
        "max attempts reached",
        "webhook billing at gw-1:8080",
    )
)


class MessagesAsked(Query, frozen=True):
    topic: Annotated[_Named, Flag(name="TOPIC")]
    key: Annotated[_Named | None, Flag("Key of the message; an event's id is one.")] = None
    begin: Annotated[
        str | None,
        Meta(description="Start time, RFC 3339 or epoch milliseconds, inclusive"),
        Flag("Stored at or after: RFC 3339, or epoch milliseconds.", "TIME", "--from"),
    ] = msgspec.field(default=None, name="from")
    end: Annotated[
        str | None,
        Meta(description="End time, RFC 3339 or epoch milliseconds, exclusive"),
        Flag("Stored before: RFC 3339, or epoch milliseconds.", "TIME", "--to"),
    ] = msgspec.field(default=None, name="to")
    limit: Annotated[int, Meta(ge=1, le=MAX_QUERY_MESSAGES), Flag("Maximum number of messages.")] = DEFAULT_LIMIT
    cursor: Annotated[_Cursor | None, Flag("Cursor of an earlier answer, to continue there.")] = None


def _cells(message: dict[str, Any]) -> tuple[object, ...]:
    place, keys = (message["storeTime"], message["queueId"], message["queueOffset"]), " ".join(message["keys"])
    return *place, keys, message["tag"], message["subTopic"], message["size"], message["id"]


MESSAGES: Final = Noun("messages", "/messages", "message", is_in_namespaces=True)


class Messages:
    """The operations of stored messages.  Ids belong to no namespace."""

    def __init__(self, store: Store, contents: Contents) -> None:
        self._finder, self._contents = store.finder, contents

    @MESSAGES.get(
        "",
        "queryMessages",
        "List messages of a topic, the newest first",
        CONTENTS_IN_QUERY,
        shows={"next": "AAAB"},
        words=Words(
            "query",
            "List messages of a topic, the newest first.",
            columns=("stored", "queue", "offset", "keys", "tag", "sub-topic", "size", "id"),
            cells=_cells,
            continued_by="--cursor",
        ),
    )
    async def listed(self, asked: Asked, query: MessagesAsked) -> Continued[MessageShown]:
        begin_ms = None if query.begin is None else epoch_ms_of(query.begin, "from")
        end_ms = None if query.end is None else epoch_ms_of(query.end, "to")
        wanted = MessageQuery(asked.topic(query.topic), query.key, begin_ms, end_ms, query.limit, query.cursor)
        page = await self._finder.query(wanted)
        return Continued([message_shown(message) for message in page.messages], page.next)

    @MESSAGES.get(
        "/{id}",
        "getMessage",
        "Get a message with all its properties",
        _ANY_CONTENTS,
        shows={"others": 0},
        is_plain=True,
    )
    async def one(self, id_: PlainName, asked: Asked) -> FoundMessageShown:
        message, others = await self._by_id(id_)
        where = f"queue {message.queue_id}, offset {message.queue_offset}"
        self._contents.note(asked.principal, message.topic, f"{where}: 1 body")
        shown = self._contents.shown_to(asked.principal)(message)
        return FoundMessageShown(**full_fields(shown), others=others)

    @MESSAGES.get(
        "/{id}/consumers",
        "listMessageConsumers",
        "Get the state of a message in each consumer group",
        _ANY_CONTENTS,
        is_plain=True,
    )
    async def consumers(self, id_: PlainName) -> Listed[GroupState]:
        message, _ = await self._by_id(id_)
        return Listed([_consumer(each) for each in await self._finder.message_consumers(message)])

    @MESSAGES.get(
        "/{id}/trace",
        "getMessageTrace",
        "Get the trace of a message hop by hop: all of it if its topic is traced, else its failed attempts",
        _ANY_CONTENTS,
        is_plain=True,
    )
    async def trace(self, id_: PlainName) -> Listed[Hop]:
        for message_id in ids_of(id_):
            if hops := await self._finder.message_trace(message_id):
                return Listed([_hop(hop) for hop in hops])
        await self._by_id(id_)  # raises where there is no such message
        return Listed([])

    async def _by_id(self, text: str) -> tuple[StoredMessage, int]:
        """Return the newest message with an id, and the number of others.  The system's copies (dead letters, retries,
        AMQP queues of other brokers) keep the message's id.  They come after messages that a producer sent to a
        topic."""
        found: list[StoredMessage] = []
        for message_id in ids_of(text):
            found = found or await self._finder.messages_by_id(message_id)
        if not found:
            raise MissingError(
                "message-not-found", "The message does not exist", f"no message has the id {text[:80]!r}"
            )
        sent = next((message for message in found if not is_hidden_topic(message.topic)), found[0])
        return sent, len(found) - 1


def _consumer(consumer: MessageConsumer) -> GroupState:
    return GroupState(split_name(consumer.group)[1], STATES[consumer.state], consumer.attempts)


def _hop(hop: MessageHop) -> Hop:
    namespace, topic = split_name(hop.topic)
    return Hop(
        _HOPS[hop.kind],
        time_shape(hop.time_ms),
        topic,
        namespace,
        hop.queue_id,
        hop.queue_offset,
        split_name(hop.group)[1] if hop.group else None,
        hop.attempt or None,
        hop.detail or None,
        hop.consumer or None,
    )
