"""Topics in an object store: progress, and tables to restore or attach as topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import qualified, split_name
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableSeen, TableTopic, Tiered, TierStatus, TierTables
from entrepot.gateway.operations.nouns.topic_definition import (
    DEFINITION,
    OFFSETS,
    TopicShown,
    definition_of,
    offsets_of,
)
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import PROTOCOL, Right, cluster, listed, making, naming, refused_making
from entrepot.gateway.operations.row.shapes import (
    Body,
    Created,
    Listed,
    Number,
    Part,
    Shown,
    TopicName,
    shown_as,
)
from entrepot.gateway.security.security import refusal_of

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.domain.topic import Topic
    from entrepot.gateway.security.security import Security

MAX_TEXT: Final = 1000
_TOPIC: Final = ResourceType.TOPIC
_ON_CLUSTER: Final = f"{Action.UPDATE} on {ResourceType.CLUSTER}"
_OF_NO_TABLE: Final = frozenset((Code.FORBIDDEN, Code.UNAVAILABLE, Code.UNSUPPORTED))
"""Refusals that tell nothing of what is in an object store."""
_UNSEEN: Final = "name one table there whose topic you may read: SUB on all of it is needed"
_TABLE: Final = "orders/4f1c2a9e8b7d6c5a-0"
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Named = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]


class TableTopicShown(TopicShown, frozen=True, kw_only=True):
    """A topic that goes on in a table, or is read from one"""

    table: str


class Uploaded(Part, frozen=True):
    queue_id: int
    next_offset: int


class MissingOffsets(Part, frozen=True):
    queue_id: int
    first_offset: int
    next_offset: int


class TieringShown(Shown, frozen=True):
    """The progress of a topic of one broker in the object store; queue ids are that broker's own"""

    topic: str
    namespace: str
    table: str
    uploaded: list[Uploaded]
    lag_messages: int
    segments: int
    bytes: int
    missing_messages: int
    missing: list[MissingOffsets]
    problem: str | None


class Accepted(Part, frozen=True):
    accepted: str | None


shown_as(TableTopicShown(**DEFINITION, offsets=OFFSETS, table=_TABLE))
shown_as(
    TieringShown(
        "orders",
        "default",
        _TABLE,
        [Uploaded(0, 41)],
        3,
        2,
        65_536,
        300,
        [MissingOffsets(0, 300, 600)],
        "the object store is away",
    )
)
shown_as(Accepted("telemetry"))


class Restoring(Body, frozen=True):
    """A topic to restore from the object store."""

    table: _Text | None = None
    tier_seconds: Number | None = None
    broker: _Text = ""
    force: bool = False


class Attaching(Body, frozen=True):
    """A table of another cluster to attach."""

    url: _Text
    table: _Text | None = None
    name: _Text | None = None
    endpoint: _Text | None = None
    region: _Text | None = None
    allow_http: bool = False
    broker: _Text = ""


class Accepting(Body, frozen=True):
    """A topic whose table is accepted, or all: the object store with all tables."""

    topic: _Named | None = None
    all: bool = False


def _restoring(own: Tiering, asked: Asked) -> list[Need]:
    name = asked.stored["name"]
    return [*cluster(Action.UPDATE).needs(own, asked), making(_TOPIC, name, own.known(name))]


def _accepted(own: object, asked: Asked, body: Accepting) -> list[Need]:
    name = EVERYTHING if body.topic is None else access_name(qualified(asked.namespace, body.topic))
    return [Need(Action.UPDATE, _TOPIC, name)]


TIERING: Final = Noun("tiering", "", "table", is_in_namespaces=True)


class Tiering:
    """The operations of tables; the list of all topics is in no namespace."""

    def __init__(self, store: Store, security: Security) -> None:
        self._store, self._security = store, security

    def known(self, name: str) -> Topic | None:
        """Return the definition of a stored name, or None."""
        return self._store.topology.topic(name)

    @property
    def _tables(self) -> TierTables:
        """The store's tables.  Raises UNSUPPORTED where it has none."""
        if not isinstance(self._store, Tiered):
            raise EntrepotError(Code.UNSUPPORTED, "this store keeps nothing in an object store")
        return self._store.tables

    @TIERING.get(
        "/tiering",
        "listTiering",
        "List all topics in an object store with their progress",
        listed(_TOPIC),
        is_plain=True,
    )
    async def listed(self) -> Listed[TieringShown]:
        found = await self._store.condition.tiering()
        return Listed([_shown(status) for status in sorted(found, key=lambda each: (each.topic, each.table))])

    @TIERING.post(
        "/topics/{name}:restore",
        "restoreTopic",
        "Restore a topic from the table of a lost broker",
        Right(_restoring, lambda asked: f"{_ON_CLUSTER}, or {refused_making(_TOPIC, asked.stored['name'])}"),
        example={"tierSeconds": 31_536_000},
        outcome="It is there",
    )
    async def restore(self, name: TopicName, asked: Asked, body: Restoring) -> Created[TableTopicShown]:
        found = await self._tables.restore(
            RestoreRequest(name, body.table, body.tier_seconds, is_forced=body.force, broker=body.broker)
        )
        asked.tell(detail=f"from the table {found.table}")
        return Created(_table_shown(found))

    @TIERING.post(
        "/tiering:attach",
        "attachTable",
        "Attach another cluster's table as a readable topic",
        cluster(Action.UPDATE),
        change="table attached",
        example={"url": "s3://their-bucket/entrepot", "table": _TABLE},
        outcome="It is there",
    )
    async def attach(self, asked: Asked, body: Attaching) -> Created[TableTopicShown]:
        request = AttachRequest(body.url, body.table, None, body.endpoint, body.region, body.allow_http, body.broker)
        seen = await self._seen(asked, request)
        name = seen.topic if body.name is None else qualified(asked.namespace, body.name)
        need = making(_TOPIC, name, self.known(name))
        if not self._security.allows(asked.principal, need.action, _TOPIC, need.name, PROTOCOL):
            raise EntrepotError(Code.FORBIDDEN, refused_making(_TOPIC, name))
        found = await self._tables.attach(replace(request, table=seen.table, name=name))
        asked.tell(f"topic {found.topic.name}", f"from the table {found.table}")
        return Created(_table_shown(found))

    async def _seen(self, asked: Asked, request: AttachRequest) -> TableSeen:
        """Return the table, whose messages the caller may read under the name they were written for.  Raises FORBIDDEN;
        whoever may not list all topics is not told if there is such a table, nor which others."""
        principal, seen, told = asked.principal, None, EntrepotError(Code.FORBIDDEN, _UNSEEN)
        may_list = self._security.why(principal, Action.LIST, _TOPIC, EVERYTHING).is_allowed
        try:
            seen = await self._tables.look(request)
        except EntrepotError as refusal:
            if refusal.code in _OF_NO_TABLE or may_list:
                raise
            raise told from None
        wanted = whole_topic(seen.topic)
        if not self._security.allows(principal, Action.SUB, _TOPIC, wanted, PROTOCOL):
            raise refusal_of(Action.SUB, _TOPIC, wanted) if may_list else told
        return seen

    @TIERING.post(
        "/tiering:accept",
        "acceptTables",
        "Accept the object store, or a topic's table in it, as it is now",
        naming(cluster(Action.UPDATE), _accepted),
        change="object store accepted",
        example={"topic": "telemetry"},
    )
    async def accept(self, asked: Asked, body: Accepting) -> Accepted:
        if (body.topic is None) != body.all:
            raise bad_request("topic: name one, or say all for the object store with all tables")
        name = "" if body.topic is None else qualified(asked.namespace, body.topic)
        await self._tables.accept(name)
        asked.tell(f"topic {name}" if name else "all tables")
        return Accepted(body.topic)


def _table_shown(found: TableTopic) -> TableTopicShown:
    return TableTopicShown(**definition_of(found.topic), offsets=offsets_of(found.queues), table=found.table)


def _shown(status: TierStatus) -> TieringShown:
    namespace, name = split_name(status.topic)
    return TieringShown(
        name,
        namespace,
        status.table,
        [Uploaded(queue_id, offset) for queue_id, offset in status.uploaded],
        status.lag_messages,
        status.segments,
        status.bytes,
        status.missing,
        [MissingOffsets(queue_id, first, end) for queue_id, first, end in status.holes],
        status.problem or None,
    )
