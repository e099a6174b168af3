"""Viewer: one request's view of a topic's messages.

Whoever may get the topic sees places, times and sizes; only who may subscribe to all of it sees keys, properties and
bodies, and may search in them.  Offsets are texts.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.query import MessageQuery
from entrepot.gateway.operations.nouns.full_message import Property, properties_shown
from entrepot.gateway.operations.nouns.message_head import message_shown
from entrepot.gateway.operations.nouns.pulling import number_in_path
from entrepot.gateway.operations.nouns.scanning import Scan, Wants, scan_backward, scan_forward, scan_newest
from entrepot.gateway.operations.row.ids import ids_of
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.shapes import Shown as ShownShape
from entrepot.gateway.operations.row.shapes import Time, shown_as

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store
    from entrepot.domain.topic import QueueBounds
    from entrepot.gateway.operations.row.masking import Shown
    from entrepot.gateway.operations.row.seen import Contents
    from entrepot.gateway.security.security import Security

NEWEST_FIRST: Final = "backward"


class ViewedMessageShown(ShownShape, frozen=True):
    """A message as the caller may see it. Contents are null where `isHidden` is true"""

    id: str
    topic: str
    namespace: str
    queue_id: int
    offset: str
    born_time: Time | None
    store_time: Time | None
    size: int
    keys: list[str] | None
    tag: str | None
    sub_topic: str | None
    message_group: str | None
    properties: list[Property] | None
    system_properties: list[Property] | None
    body: str | None
    is_cut: bool
    is_hidden: bool
    is_masked: bool


_PROPERTY: Final = Property("unit", "celsius", "Yw==")
_TIME: Final = "2026-12-01T08:00:00.000Z"
EXAMPLE: Final = ViewedMessageShown(
    "019AF2C4A48D1549BA4F1FC100000000",
    "orders",
    "default",
    2,
    "41",
    _TIME,
    _TIME,
    3,
    ["7"],
    "",
    "orders",
    "",
    [_PROPERTY],
    [_PROPERTY],
    "bm93",
    False,
    False,
    False,
)
shown_as(EXAMPLE)


@dataclass(frozen=True, slots=True)
class View:
    """Range and filter of a query for messages."""

    queue: int | None
    offset: str | None
    direction: str
    from_ms: int | None
    to_ms: int | None
    key: str | None
    id: str | None
    cursor: str | None
    filter: FilterExpression | None
    text: str
    body_text: str
    limit: int
    scan: int
    body_bytes: int

    @property
    def is_search(self) -> bool:
        """True if the answer depends on contents."""
        return bool(self.filter or self.text or self.body_text or self.key)


class Viewer:
    """One request's view of a topic."""

    def __init__(self, store: Store, security: Security, contents: Contents, principal: Principal, name: str) -> None:
        self._store, self._contents, self._principal = store, contents, principal
        self.topic = name
        definition = store.topology.topic(name)
        if definition is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        self.shown = contents.shown_to(principal)
        may_subscribe = security.why(principal, Action.SUB, ResourceType.TOPIC, whole_topic(name))
        self.sees_contents = may_subscribe.is_allowed and definition.permission.readable

    async def scan(self, view: View) -> tuple[Scan, QueueBounds | None]:
        """The messages of a query, and the bounds of its queue.  Raises BAD_REQUEST for parameters that do not go
        together."""
        scan = Scan(self._wants(view), view.limit, view.scan)
        if view.id is not None:
            await self._by_id(scan, view.id)
        elif view.queue is None:
            if view.offset is not None:
                raise bad_request("queue: is missing beside offset")
            query = MessageQuery(self.topic, view.key, view.from_ms, view.to_ms, 1, view.cursor)
            await scan_newest(self._store, scan, query)
        else:
            return scan, await self._of_queue(scan, view)
        return scan, None

    async def message_at(self, queue: str, offset: str) -> StoredMessage:
        """The message of a place in the path.  Raises MissingError."""
        queue_id, wanted = number_in_path(queue), number_in_path(offset, "offset")
        bounds = await self._bounds(queue_id)
        found: list[StoredMessage] = []
        if bounds.min_offset <= wanted < bounds.max_offset:
            found = await self._store.messages.read(self.topic, queue_id, wanted, 1)
        if not found or found[0].queue_offset != wanted:
            raise MissingError("message-not-found", "The message does not exist", f"no message is at offset {wanted}")
        return found[0]

    def rows(self, messages: list[StoredMessage], body_bytes: int) -> list[ViewedMessageShown]:
        """The messages as they are shown; a look at bodies goes to the audit log."""
        rows = [self.row(message, body_bytes) for message in messages]
        bodies = sum(row.body is not None for row in rows)
        if bodies:
            queues = {message.queue_id for message in messages}
            offsets = sorted(message.queue_offset for message in messages)
            where = f"queue {queues.pop()}, " if len(queues) == 1 else f"{len(queues)} queues, "
            told = f"{where}offsets {offsets[0]} to {offsets[-1]}: {bodies} {'body' if bodies == 1 else 'bodies'}"
            self._contents.note(self._principal, self.topic, told)
        return rows

    def row(self, message: StoredMessage, body_bytes: int) -> ViewedMessageShown:
        """One message, as far as the caller is shown it."""
        shown, is_seen = self.shown(message), self.sees_contents
        head = message_shown(shown.message)
        body = shown.body if is_seen and body_bytes else None
        return ViewedMessageShown(
            id=head.id,
            topic=head.topic,
            namespace=head.namespace,
            queue_id=head.queue_id,
            offset=str(head.queue_offset),
            born_time=head.born_time,
            store_time=head.store_time,
            size=head.size,
            keys=head.keys if is_seen else None,
            tag=head.tag if is_seen else None,
            sub_topic=head.sub_topic if is_seen else None,
            message_group=head.message_group if is_seen else None,
            properties=properties_shown(shown.properties) if is_seen else None,
            system_properties=properties_shown(shown.system.items()) if is_seen else None,
            body=None if body is None else b64encode(body[:body_bytes]).decode("ascii"),
            is_cut=body is not None and len(body) > body_bytes,
            is_hidden=not is_seen or shown.body is None,
            is_masked=is_seen and shown.is_masked,
        )

    async def _bounds(self, queue_id: int) -> QueueBounds:
        for bounds in await self._store.messages.bounds(self.topic):
            if bounds.queue_id == queue_id:
                return bounds
        raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of this topic now")

    async def _of_queue(self, scan: Scan, view: View) -> QueueBounds:
        assert view.queue is not None
        if view.key is not None or view.cursor is not None:
            raise bad_request("key and cursor are for all queues: leave queue out")
        bounds = await self._bounds(view.queue)
        start, end = bounds.first, bounds.max_offset
        if view.from_ms is not None:
            start = max(start, await self._offset_at(view.queue, view.from_ms))
        if view.to_ms is not None:
            end = min(end, await self._offset_at(view.queue, view.to_ms))
        if view.direction == NEWEST_FIRST:
            end = end if view.offset is None else min(end, int(view.offset))
            await scan_backward(self._store, self.topic, view.queue, scan, start, end)
        else:
            start = start if view.offset is None else max(start, int(view.offset))
            await scan_forward(self._store, self.topic, view.queue, scan, start, end)
        return bounds

    async def _offset_at(self, queue_id: int, epoch_ms: int) -> int:
        return await self._store.messages.offset_at(self.topic, queue_id, Position(PositionKind.TIME, epoch_ms))

    async def _by_id(self, scan: Scan, text: str) -> None:
        for message_id in ids_of(text):
            found = await self._store.finder.messages_by_id(message_id)
            for message in found:
                if message.topic == self.topic and scan.may_go_on():
                    scan.look_at(message)
            if scan.found:
                return

    def _wants(self, view: View) -> Wants | None:
        """The filter and the searches of a query, which see no more than the caller is shown."""
        compiled = None if view.filter is None else compile_filter(view.filter)
        if not (compiled or view.text or view.body_text):
            return None

        def wants(message: StoredMessage) -> bool:
            shown = self.shown(message)
            if compiled is not None and not compiled.matches(shown.as_message()):
                return False
            if view.text and view.text not in _searchable(shown):
                return False
            return not view.body_text or view.body_text in _body_text(shown)

        return wants

    def has_text(self, message: StoredMessage, text: str) -> bool:
        """True if a folded text is in anything that the caller is shown of a message."""
        shown = self.shown(message)
        return text in _searchable(shown) or text in _body_text(shown)


def _body_text(shown: Shown) -> str:
    return (shown.body or b"").decode("utf-8", "replace").casefold()


def _searchable(shown: Shown) -> str:
    """Everything but the body that a search finds, one value a line."""
    message = shown.message
    values = (*shown.properties, *shown.system.items())
    texts = [value if isinstance(value, str) else value.decode("utf-8", "replace") for _, value in values]
    names = [name for name, _ in values]
    return "\n".join((*message.keys, message.tag, message.sub_topic, message.message_group, *names, *texts)).casefold()
