"""Consumer groups: list, show, create and change, delete, reset offsets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.names import split_name
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.gateway.operations.nouns.group_tables import cells, tables
from entrepot.gateway.operations.nouns.kinds import GROUP_KINDS, check_kinds, group_kind
from entrepot.gateway.operations.nouns.start_position import position_to
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.option_texts import FILTER_FORMS, RETRY_FORMS, filter_expression, retry_policy
from entrepot.gateway.operations.row.paging import (
    PAGED,
    Page,
    Pages,
    Piece,
    Selection,
    is_page,
    listed_or_paged,
    piece_of,
)
from entrepot.gateway.operations.row.rights import naming, on, putting, reading
from entrepot.gateway.operations.row.shapes import (
    MAX_NUMBER,
    Body,
    Flag,
    GroupName,
    Made,
    Number,
    Offset,
    Part,
    Shown,
    shown_as,
)

if TYPE_CHECKING:
    from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus
    from entrepot.domain.ports import Store
    from entrepot.gateway.messaging.membership import Memberships
    from entrepot.gateway.security.security import Security
    from entrepot.gateway.settings import GroupsSettings

MAX_TOPICS_OF_A_ROW: Final = 20
"""Most topics named in a row of a page."""
_FilterKind = Literal["TAG", "SQL92", "SUB_TOPIC"]


# -- what goes out ---------------------------------------------------------------------------------------------------


class RetryShape(Part, frozen=True):
    kind: RetryKind
    initial_ms: int
    max_ms: int
    multiplier: float
    delays_ms: list[int]


class FilterShape(Part, frozen=True):
    kind: _FilterKind
    text: str


class ProgressShape(Part, frozen=True):
    topic: str
    queue_id: int
    committed_offset: int
    max_offset: int
    in_flight: int
    lag: int


class _Definition(Part, frozen=True):
    name: str
    namespace: str
    max_attempts: int
    invisible_seconds: int
    start: str
    retry: RetryShape
    max_in_flight: int | None
    fifo: bool
    filter: FilterShape | None


class ConsumerGroupShown(_Definition, Shown, frozen=True):
    """A consumer group with its progress"""

    progress: list[ProgressShape]


class ConsumerGroupRowShown(_Definition, Shown, frozen=True):
    """A group in a page. Sums are lower bounds unless it is complete, and null while nobody tells them"""

    kind: Literal["normal", "queue", "subscription", "shared"]
    is_available: bool
    is_complete: bool
    lag: str | None
    in_flight: str | None
    topics: list[str] | None
    topic_count: int | None


_EXAMPLE: Final[dict[str, Any]] = {
    "name": "workers",
    "namespace": "default",
    "max_attempts": 16,
    "invisible_seconds": 30,
    "start": "earliest",
    "retry": RetryShape(RetryKind.IMMEDIATE, 1000, 7_200_000, 2.0, [1000]),
    "max_in_flight": 1000,
    "fifo": False,
    "filter": FilterShape("TAG", "a || b"),
}
shown_as(ConsumerGroupShown(**_EXAMPLE, progress=[ProgressShape("orders", 0, 41, 44, 1, 3)]))


# -- what comes in ---------------------------------------------------------------------------------------------------


class RetryChange(Body, frozen=True):
    """A retry policy, replaced as a whole: omitted fields take their defaults."""

    kind: RetryKind
    initial_ms: Number | UnsetType = UNSET
    max_ms: Number | UnsetType = UNSET
    multiplier: float | UnsetType = UNSET
    delays_ms: list[Number] | UnsetType = UNSET

    def policy(self) -> RetryPolicy:
        """Return the policy.  Raises BAD_REQUEST."""
        given = self.given()
        return RetryPolicy(**{**given, "delays_ms": tuple(given["delays_ms"])} if "delays_ms" in given else given)


class FilterChange(Body, frozen=True):
    """Filter of a group's messages."""

    kind: _FilterKind
    text: str


class GroupChange(Body, frozen=True):
    """Change of a consumer group."""

    max_attempts: Annotated[
        Number | UnsetType, Flag("Maximum number of deliveries of a message, which then becomes a dead letter.")
    ] = UNSET
    invisible_seconds: Annotated[Number | UnsetType, Flag("Invisible duration of a received message, in seconds.")] = (
        UNSET
    )
    start: Annotated[str | UnsetType, Flag("Start position: earliest, latest or an RFC 3339 time.")] = UNSET
    retry: Annotated[
        RetryChange | UnsetType,
        Flag(
            "Delay of retries: immediate, exponential:1000:60000:2 (first and longest delay in ms, factor) or "
            "list:1000,5000.",
            "POLICY",
            read=retry_policy,
            forms=RETRY_FORMS,
        ),
    ] = UNSET
    max_in_flight: Annotated[Number | UnsetType | None, Flag("Maximum number of unsettled messages of a topic.")] = (
        UNSET
    )
    fifo: Annotated[bool | UnsetType, Flag("Deliver the messages of a message group in order.")] = UNSET
    filter: Annotated[
        FilterChange | UnsetType | None,
        Flag(
            "Filter of messages: 'TAG:a || b', 'SQL92:price > 3', 'SUB_TOPIC:t/+/x'.",
            "KIND:TEXT|none",
            read=filter_expression,
            forms=FILTER_FORMS,
        ),
    ] = UNSET

    def applied(self, group: ConsumerGroup) -> ConsumerGroup:
        """Return the group with the fields that were given.  Raises BAD_REQUEST."""
        fields = self.given()
        if isinstance(self.retry, RetryChange):
            fields["retry"] = self.retry.policy()
        if isinstance(self.filter, FilterChange):
            from entrepot.domain.expression.filter import FilterExpression, FilterKind  # no command pays for it

            fields["filter"] = FilterExpression(FilterKind(self.filter.kind), self.filter.text)
        return replace(group, **fields, revision=0)


class Reset(Body, frozen=True):
    """New offsets of a group: of one queue, or of all queues of the topic."""

    topic: Annotated[str, Flag(name="TOPIC")]
    to: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_NUMBER)] | str,
        Flag("New position: earliest, latest, an offset or an RFC 3339 time."),
    ]
    queue_id: Annotated[Offset | None, Flag("Queue to reset; else all queues of the topic.", name="--queue")] = None


# -- the operations --------------------------------------------------------------------------------------------------

GROUPS: Final = Noun("groups", "/groups", "group", "Consumer groups of a running server.", is_in_namespaces=True)


class Groups:
    """The operations of groups."""

    def __init__(self, store: Store, security: Security, settings: GroupsSettings, memberships: Memberships) -> None:
        from entrepot.gateway.operations.row.statuses import group_statuses  # no command pays for it

        self._store, self._settings, self._memberships = store, settings, memberships
        self._pages = Pages(store, security)
        self._ask = partial(group_statuses, store)

    def known(self, name: str) -> ConsumerGroup | None:
        """Return the definition of a stored name, or None."""
        return self._store.topology.group(name)

    @GROUPS.get(
        "",
        "listGroups",
        "List all consumer groups with their progress in pieces of 500, or a page of them with sums",
        listed_or_paged(ResourceType.GROUP),
        about=PAGED,
        shows={"next": "orders"},
        words=Words(
            "list",
            "List every group with its lag; with an option, a page of groups.",
            columns=("group", "max attempts", "invisible s", "start", "topics", "in flight", "lag"),
            cells=cells,
            is_paged=True,
        ),
    )
    async def listed(self, asked: Asked, query: Selection) -> Piece[ConsumerGroupShown] | Page[ConsumerGroupRowShown]:
        topology = self._store.topology
        if not is_page(asked):
            known_namespace(self._store, asked.namespace)
            names = (group.name for group in topology.groups() if split_name(group.name)[0] == asked.namespace)
            return await piece_of(names, query.after, self._ask, group_of)
        check_kinds(query.kinds, GROUP_KINDS)
        namespace, kind_of = self._pages.visible_namespace(asked), partial(group_kind, topology)
        groups = {group.name: group for group in topology.groups() if split_name(group.name)[0] == namespace}
        figures = {"lag": _lag, "inFlight": _in_flight}
        rows = await self._pages.rows(asked.principal, ResourceType.GROUP, groups, query, kind_of, self._ask, figures)
        return rows.page(lambda name, status, is_partial: _row(groups[name], kind_of(name), status, is_partial))

    @GROUPS.get(
        "/{name}",
        "getGroup",
        "Get a consumer group with its progress",
        on(ResourceType.GROUP, Action.GET),
        words=Words("show", "Show one group and its progress in every queue it has read.", tables=tables),
    )
    async def show(self, name: GroupName) -> ConsumerGroupShown:
        return group_of(await self._store.topology.group_status(name))

    @GROUPS.put(
        "/{name}",
        "putGroup",
        "Create or change a consumer group",
        putting(ResourceType.GROUP, lambda own, name: own.known(name)),
        example={"maxAttempts": 5, "retry": {"kind": "list", "delaysMs": [1000, 5000]}},
        words=(
            Words(
                "create",
                "Create a group, or change an existing one; omitted options keep their value or take the default.",
                outcome="group {name} is there",
            ),
            Words(
                "update",
                "Change an existing group; omitted options keep their value.",
                outcome="group {name} is changed",
                must_exist=True,
            ),
        ),
    )
    async def put(self, name: GroupName, body: GroupChange) -> Made[ConsumerGroupShown]:
        existing = self.known(name)
        await self._store.topology.put_group(body.applied(existing or self._settings.new_group(name)))
        return Made(group_of(await self._store.topology.group_status(name)), existing is None)

    @GROUPS.delete(
        "/{name}",
        "deleteGroup",
        "Delete a consumer group with its progress",
        on(ResourceType.GROUP, Action.DELETE),
        words=Words(
            "delete",
            "Delete a group with its progress. Asks for confirmation.",
            outcome="group {name} deleted",
            confirm="Delete the group {name} with its progress?",
        ),
    )
    async def delete(self, name: GroupName) -> None:
        await self._store.topology.delete_group(name)
        await self._memberships.forget(group=name)

    @GROUPS.post(
        "/{name}:reset",
        "resetGroup",
        "Reset a consumer group to another position",
        naming(on(ResourceType.GROUP, Action.UPDATE), lambda own, asked, body: [reading(asked, body.topic)]),
        example={"topic": "orders", "to": "2026-12-01T00:00:00Z"},
        words=Words(
            "reset",
            "Reset a group to another position: messages before it count as settled, later ones are delivered (again)."
            "\n\nThe group's progress is lost, so it asks for confirmation.",
            confirm="Let the group {name} go on at {to} in {topic}, and forget its progress there?",
            tables=tables,
        ),
    )
    async def reset(self, asked: Asked, name: GroupName, body: Reset) -> ConsumerGroupShown:
        topic = asked.topic(body.topic)
        where = "" if body.queue_id is None else f" queue {body.queue_id}"
        asked.tell(detail=f"on topic {topic}{where} to {str(body.to)[:40]}")
        consumption = self._store.consumption
        return group_of(await consumption.reset_group(name, topic, position_to(body.to), body.queue_id))


def _lag(status: GroupStatus) -> int:
    return sum(queue.lag for queue in status.progress)


def _in_flight(status: GroupStatus) -> int:
    return sum(queue.in_flight for queue in status.progress)


def _row(group: ConsumerGroup, kind: str, status: GroupStatus | None, is_partial: bool) -> ConsumerGroupRowShown:
    """Return a row of a page: sums that are lower bounds unless it is complete, and no figures of silent brokers."""
    topics = None if status is None else sorted({split_name(queue.topic)[1] for queue in status.progress})
    return ConsumerGroupRowShown(
        **_definition(group),
        kind=kind,  # type: ignore[arg-type]  # one of the words above
        is_available=status is not None,
        is_complete=status is not None and not is_partial,
        lag=None if status is None else str(_lag(status)),
        in_flight=None if status is None else str(_in_flight(status)),
        topics=None if topics is None else topics[:MAX_TOPICS_OF_A_ROW],
        topic_count=None if topics is None else len(topics),
    )


def group_of(status: GroupStatus) -> ConsumerGroupShown:
    """Return a group with its progress as it is shown."""
    progress = [
        ProgressShape(
            split_name(queue.topic)[1],
            queue.queue_id,
            queue.committed_offset,
            queue.max_offset,
            queue.in_flight,
            queue.lag,
        )
        for queue in status.progress
    ]
    return ConsumerGroupShown(**_definition(status.group), progress=progress)


def _definition(group: ConsumerGroup) -> dict[str, Any]:
    namespace, name = split_name(group.name)
    wanted = group.filter
    return {
        "name": name,
        "namespace": namespace,
        "max_attempts": group.max_attempts,
        "invisible_seconds": group.invisible_seconds,
        "start": group.start,
        "retry": retry_of(group.retry),
        "max_in_flight": group.max_in_flight,
        "fifo": group.fifo,
        "filter": None if wanted is None else FilterShape(wanted.kind.value, wanted.text),
    }


def retry_of(retry: RetryPolicy) -> RetryShape:
    """Return a retry policy as it is shown."""
    return RetryShape(retry.kind, retry.initial_ms, retry.max_ms, retry.multiplier, list(retry.delays_ms))
