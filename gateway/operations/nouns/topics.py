"""Topics: list, show, create and change (also many at once), delete."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.topic import Cleanup, Confirm, Permission, Topic, TopicStatus, TopicType
from entrepot.gateway.operations.nouns.kinds import TOPIC_KINDS, check_kinds, topic_kind
from entrepot.gateway.operations.nouns.topic_definition import DefinitionShown, TopicShown, definition_of, topic_shown
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.operation import Noun, Table, Words
from entrepot.gateway.operations.row.option_texts import PLACEMENT_FORMS, placement
from entrepot.gateway.operations.row.paging import (
    PAGED,
    Page,
    Pages,
    Piece,
    Selection,
    figure_text,
    is_page,
    listed_or_paged,
    piece_of,
)
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.refusals import REFUSAL, RefusalShown, refusal_shown
from entrepot.gateway.operations.row.rights import fixed, on, putting
from entrepot.gateway.operations.row.shapes import Body, Flag, Listed, Made, Number, Shown, TopicName, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.messaging.membership import Memberships
    from entrepot.gateway.security.security import Security
    from entrepot.gateway.settings import TopicsSettings

MAX_TOPICS_AT_ONCE: Final = 10_000

# -- what goes out ---------------------------------------------------------------------------------------------------


class TopicRowShown(DefinitionShown, frozen=True, kw_only=True):
    """A topic in a page. Sums are lower bounds unless it is complete, and null while nobody tells them"""

    kind: Literal["normal", "deadLetter", "retry", "queue", "subscription", "system"]
    is_available: bool
    is_complete: bool
    messages: str | None
    written: str | None


class TopicOutcomeShown(Shown, frozen=True):
    """The outcome for one of many topics"""

    name: str
    created: bool | UnsetType = UNSET
    error: RefusalShown | UnsetType = UNSET


shown_as(TopicOutcomeShown("orders", True, REFUSAL))


# -- what comes in ---------------------------------------------------------------------------------------------------


class TopicSelection(Selection, frozen=True):
    message_type: Annotated[
        Literal["NORMAL", "PRIORITY"] | None,
        Meta(description="Type of the topics"),
        Flag("Message type: NORMAL or PRIORITY.", name="--type"),
    ] = msgspec.field(default=None, name="type")


class _Change(Body, frozen=True):
    queues: Annotated[
        Number | UnsetType, Flag("Number of message queues; it shrinks only once the last ones are drained.")
    ] = UNSET
    write_queues: Annotated[Number | UnsetType | None, Flag("Number of queues for new messages; none: all.")] = UNSET
    type: Annotated[TopicType | UnsetType, Flag("Message type: NORMAL or PRIORITY.")] = UNSET
    permission: Annotated[Permission | UnsetType, Flag("Permission: READ_WRITE, READ, WRITE or NONE.")] = UNSET
    cleanup: Annotated[
        Cleanup | UnsetType,
        Flag("Cleanup policy: DELETE (by age and size), CONSUMED (settled by every group) or COMPACT (last per key)."),
    ] = UNSET
    retention_seconds: Annotated[Number | UnsetType | None, Flag("Retention by age, in seconds.")] = UNSET
    retention_bytes: Annotated[Number | UnsetType | None, Flag("Retention by size, in bytes.")] = UNSET
    max_message_bytes: Annotated[Number | UnsetType | None, Flag("Maximum body size, in bytes.")] = UNSET
    max_backlog: Annotated[
        Number | UnsetType | None,
        Flag("Maximum lag of the slowest group, in messages; beyond it new ones are refused."),
    ] = UNSET
    confirm: Annotated[
        Confirm | UnsetType, Flag("Confirm level: RULE (the broker's rule) or ASYNC (the master's disk alone).")
    ] = UNSET
    tier_seconds: Annotated[
        Number | UnsetType | None,
        Flag("Retention in the broker's object store, in seconds; none: not stored there."),
    ] = UNSET
    trace: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | UnsetType, Flag("Share of traced messages, 0 (none) to 1 (all).", "SHARE")
    ] = UNSET
    placement: Annotated[
        dict[str, Number] | UnsetType | None,
        Flag(
            "Placement on this broker alone, with this number of queues; may be repeated.",
            "BROKER=QUEUES",
            "--on",
            placement,
            is_many=True,
            forms=PLACEMENT_FORMS,
        ),
    ] = UNSET
    """Number of queues by broker name; null: `queues` on every broker."""

    def applied(self, topic: Topic) -> Topic:
        """Return the topic with the fields that were given.  Raises BAD_REQUEST."""
        fields = self.given()
        fields.pop("name", None)
        if "placement" in fields:
            fields["placement"] = tuple(sorted((fields["placement"] or {}).items()))
        return replace(topic, **fields, revision=0)


class TopicChange(_Change, frozen=True):
    """Change of a topic."""


class NamedTopicChange(_Change, frozen=True, kw_only=True):
    """Change of one of many topics."""

    name: str


class TopicChanges(Body, frozen=True):
    """Changes of many topics."""

    value: Annotated[list[NamedTopicChange], Meta(min_length=1, max_length=MAX_TOPICS_AT_ONCE)]


# -- what commands show ----------------------------------------------------------------------------------------------

_SHOWN: Final = (
    "namespace",
    "queues",
    "writeQueues",
    "type",
    "permission",
    "cleanup",
    "retentionSeconds",
    "retentionBytes",
    "tierSeconds",
    "maxMessageBytes",
    "maxBacklog",
    "confirm",
    "trace",
    "placement",
)


def _cells(topic: dict[str, Any]) -> tuple[object, ...]:
    is_of_a_page = "isComplete" in topic
    offsets = topic.get("offsets") or []
    held = figure_text(topic, "messages") if is_of_a_page else sum(o["maxOffset"] - o["minOffset"] for o in offsets)
    return topic["name"], topic["queues"], topic["type"], topic["permission"], held


def _tables(topic: dict[str, Any]) -> list[Table]:
    offsets = ((o["queueId"], o["minOffset"], o["maxOffset"]) for o in topic.get("offsets") or [])
    facts = ((key, topic.get(key)) for key in _SHOWN)
    return [(("topic", topic["name"]), facts), (("queue", "min offset", "max offset"), offsets)]


# -- the operations --------------------------------------------------------------------------------------------------

TOPICS: Final = Noun("topics", "/topics", "topic", "Topics of a running server.", is_in_namespaces=True)


class Topics:
    """The operations of topics."""

    def __init__(self, store: Store, security: Security, settings: TopicsSettings, memberships: Memberships) -> None:
        from entrepot.gateway.operations.row.statuses import topic_statuses  # no command pays for it

        self._store, self._settings, self._memberships = store, settings, memberships
        self._pages = Pages(store, security)
        self._ask = partial(topic_statuses, store)

    def known(self, name: str) -> Topic | None:
        """Return the definition of a stored name, or None."""
        return self._store.topology.topic(name)

    @TOPICS.get(
        "",
        "listTopics",
        "List all topics with their offsets in pieces of 500, or a page of them with sums",
        listed_or_paged(ResourceType.TOPIC),
        about=PAGED,
        shows={"next": "orders"},
        words=Words(
            "list",
            "List every topic with its number of messages; with an option, a page of topics.",
            columns=("topic", "queues", "type", "permission", "messages"),
            cells=_cells,
            is_paged=True,
        ),
    )
    async def listed(self, asked: Asked, query: TopicSelection) -> Piece[TopicShown] | Page[TopicRowShown]:
        topology = self._store.topology
        if not is_page(asked):
            known_namespace(self._store, asked.namespace)
            names = (topic.name for topic in topology.topics() if split_name(topic.name)[0] == asked.namespace)
            return await piece_of(names, query.after, self._ask, topic_shown)
        check_kinds(query.kinds, TOPIC_KINDS)
        namespace = self._pages.visible_namespace(asked)
        topics = {topic.name: topic for topic in topology.topics() if split_name(topic.name)[0] == namespace}
        wanted = [name for name, topic in topics.items() if query.message_type in (None, topic.type)]
        figures = {"messages": _messages, "written": _written}
        rows = await self._pages.rows(
            asked.principal, ResourceType.TOPIC, wanted, query, topic_kind, self._ask, figures
        )
        return rows.page(lambda name, status, is_partial: _row(topics[name], status, is_partial))

    @TOPICS.put(
        "",
        "putTopics",
        "Create or change many topics, each with its own outcome",
        fixed((Action.CREATE, ResourceType.TOPIC), (Action.UPDATE, ResourceType.TOPIC)),  # names are in the body
        change="topics changed",
        example={"value": [{"name": "a", "queues": 8}]},
        outcome="The outcome for each",
    )
    async def put_many(self, asked: Asked, body: TopicChanges) -> Listed[TopicOutcomeShown]:
        outcomes = await self._put_many(asked, body.value)
        refused = sum(outcome.error is not UNSET for outcome in outcomes)
        asked.tell(detail=f"{len(outcomes) - refused} topics, {refused} refused")
        return Listed(outcomes)

    @TOPICS.get(
        "/{name}",
        "getTopic",
        "Get a topic with its offsets",
        on(ResourceType.TOPIC, Action.GET),
        words=Words("show", "Show one topic and the offsets of its queues.", tables=_tables),
    )
    async def show(self, name: TopicName) -> TopicShown:
        return topic_shown(await self._store.topology.topic_status(name))

    @TOPICS.put(
        "/{name}",
        "putTopic",
        "Create or change a topic",
        putting(ResourceType.TOPIC, lambda own, name: own.known(name)),
        example={"queues": 8, "retentionSeconds": 86_400},
        words=(
            Words(
                "create",
                "Create a topic, or change an existing one; omitted options keep their value or take the default.",
                outcome="topic {name} is there",
            ),
            Words(
                "update",
                "Change an existing topic; omitted options keep their value.",
                outcome="topic {name} is changed",
                must_exist=True,
            ),
        ),
    )
    async def put(self, name: TopicName, body: TopicChange) -> Made[TopicShown]:
        is_new = self.known(name) is None
        await self._store.topology.put_topic(self._changed(name, body))
        return Made(topic_shown(await self._store.topology.topic_status(name)), is_new)

    @TOPICS.delete(
        "/{name}",
        "deleteTopic",
        "Delete a topic with its messages",
        on(ResourceType.TOPIC, Action.DELETE),
        words=Words(
            "delete",
            "Delete a topic with its messages. Asks for confirmation.",
            outcome="topic {name} deleted",
            confirm="Delete the topic {name} with all its messages?",
        ),
    )
    async def delete(self, name: TopicName) -> None:
        await self._store.topology.delete_topic(name)
        await self._memberships.forget(topic=name)

    def _changed(self, name: str, change: _Change) -> Topic:
        from entrepot.domain.ports.cluster import Clustered

        if change.placement and not isinstance(self._store, Clustered):
            raise bad_request("placement: the store is in this process: there are no brokers to name")
        return change.applied(self.known(name) or Topic(name, queues=self._settings.default_queues))

    async def _put_many(self, asked: Asked, changes: list[NamedTopicChange]) -> list[TopicOutcomeShown]:
        names = [change.name for change in changes]
        if len(set(names)) < len(names):
            raise bad_request("value: names a topic twice")
        outcomes: dict[str, TopicOutcomeShown] = {name: TopicOutcomeShown(name) for name in names}
        wanted: list[tuple[str, Topic]] = []
        for change in changes:
            try:
                stored = asked.topic(change.name)
                topic = self._changed(stored, change)
            except EntrepotError as refusal:
                outcomes[change.name] = TopicOutcomeShown(change.name, error=refusal_shown(refusal))
                continue
            wanted.append((change.name, topic))
            outcomes[change.name] = TopicOutcomeShown(change.name, self.known(stored) is None)
        refusals = await self._store.topology.put_topics([topic for _, topic in wanted])
        for (name, _), refused in zip(wanted, refusals, strict=True):
            if refused is not None:
                outcomes[name] = TopicOutcomeShown(name, error=refusal_shown(refused))
        return list(outcomes.values())


def _messages(status: TopicStatus) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in status.queues)


def _written(status: TopicStatus) -> int:
    return sum(queue.max_offset for queue in status.queues)


def _row(topic: Topic, status: TopicStatus | None, is_partial: bool) -> TopicRowShown:
    """Return a row of a page: sums that are lower bounds unless it is complete, and no figures of silent brokers."""
    return TopicRowShown(
        **definition_of(topic),
        kind=topic_kind(topic.name),  # type: ignore[arg-type]  # one of the words above
        is_available=status is not None,
        is_complete=status is not None and not is_partial,
        messages=None if status is None else str(_messages(status)),
        written=None if status is None else str(_written(status)),
    )
