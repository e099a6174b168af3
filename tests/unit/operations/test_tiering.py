"""Tables in an object store as their operations tell them: without HTTP."""

from __future__ import annotations

from typing import Any, cast

import pytest

from entrepot.domain.access.model import EVERYTHING, Action, Decision, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import qualified
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableSeen, TableTopic, TierStatus
from entrepot.domain.topic import QueueBounds, Topic
from entrepot.gateway.operations.nouns.tiering import Accepting, Attaching, Restoring, Tiering
from entrepot.gateway.operations.row.shapes import TopicName
from entrepot.gateway.security.security import Security
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

BELOW = qualified("plant", "orders")


class Rights:
    """Rights of one user: actions on names; None: all."""

    def __init__(self, *allowed: tuple[Action, str]) -> None:
        self.allowed = allowed

    def allows(self, principal: Principal, action: Action, kind: ResourceType, name: str, protocol: str) -> bool:
        return self.why(principal, action, kind, name).is_allowed

    def why(self, principal: Principal, action: Action, kind: ResourceType, name: str) -> Decision:
        return Decision(not self.allowed or (action, name) in self.allowed, "")


def rights(*allowed: tuple[Action, str]) -> Security:
    return cast(Security, Rights(*allowed))


ALL = rights()


class Tables:
    """Tables that note what they are asked for."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def restore(self, request: RestoreRequest) -> TableTopic:
        self.requests.append(request)
        return TableTopic(Topic(request.topic, queues=1), "orders/1", [QueueBounds(0, 2, 5)])

    async def look(self, request: AttachRequest) -> TableSeen:
        if request.table == "none/1":
            raise EntrepotError(Code.TOPIC_NOT_FOUND, "there is no table 'none/1'; there is secret/1")
        return TableSeen("orders/1", "orders")

    async def attach(self, request: AttachRequest) -> TableTopic:
        self.requests.append(request)
        return TableTopic(Topic(request.name or "orders", queues=1), "orders/1", [QueueBounds(0, 0, 4)])

    async def accept(self, topic: str) -> None:
        self.requests.append(topic)


class TieredStore(MemoryStore):
    """A store with tables, and with these statuses."""

    def __init__(self, *statuses: TierStatus) -> None:
        super().__init__(ManualClock())
        self.tables = Tables()

        async def tiering() -> list[TierStatus]:
            return list(statuses)

        self.condition.tiering = tiering  # type: ignore[method-assign]


async def test_topics_are_listed_by_name_and_table() -> None:
    holes = ((0, 3, 6),)
    store = TieredStore(
        TierStatus("shop", "b", (), 0, 0, 0),
        TierStatus("shop", "a", ((0, 41),), 3, 2, 65_536, "it is away", missing=3, holes=holes),
        TierStatus(BELOW, "c", (), 0, 0, 0),
    )
    found = (await Tiering(store, ALL).listed()).value
    assert [(each.namespace, each.topic, each.table) for each in found] == [
        ("plant", "orders", "c"),
        ("default", "shop", "a"),
        ("default", "shop", "b"),
    ]
    shown = found[1]
    assert [(each.queue_id, each.next_offset) for each in shown.uploaded] == [(0, 41)]
    assert [(each.queue_id, each.first_offset, each.next_offset) for each in shown.missing] == [(0, 3, 6)]
    assert (shown.missing_messages, shown.problem, found[2].problem) == (3, "it is away", None)


async def test_a_topic_is_restored_and_the_audit_log_names_its_table() -> None:
    store, request = TieredStore(), asked()
    made = await Tiering(store, ALL).restore(
        TopicName(BELOW), request, Restoring("orders/1", 60, "broker-1", force=True)
    )
    assert store.tables.requests == [RestoreRequest(BELOW, "orders/1", 60, is_forced=True, broker="broker-1")]
    assert (made.value.name, made.value.namespace, made.value.table) == ("orders", "plant", "orders/1")
    assert [(each.min_offset, each.max_offset) for each in made.value.offsets] == [(2, 5)]
    assert request.told == (("", "from the table orders/1"),)


async def test_an_attached_table_has_its_own_name_or_one_of_the_namespace() -> None:
    store, request = TieredStore(), asked(namespace="plant")
    tiering = Tiering(store, ALL)
    await tiering.attach(request, Attaching("s3://b", name="theirs", allow_http=True))
    named = qualified("plant", "theirs")
    assert request.told == ((f"topic {named}", "from the table orders/1"),)
    await tiering.attach(asked(namespace="plant"), Attaching("s3://b"))
    assert store.tables.requests == [
        AttachRequest("s3://b", "orders/1", named, allow_http=True),
        AttachRequest("s3://b", "orders/1", "orders"),
    ]


READ, MAKE, LIST = (Action.SUB, "orders/#"), (Action.CREATE, "copy"), (Action.LIST, EVERYTHING)


@cases(
    "allowed, table, refusal",
    [
        ([READ, MAKE], "orders/1", None),
        ([MAKE], "orders/1", "name one table there whose topic you may read"),
        ([MAKE], "none/1", "name one table there whose topic you may read"),
        ([MAKE, LIST], "orders/1", "SUB on Topic 'orders/#' is not allowed"),
        ([MAKE, LIST], "none/1", "there is no table 'none/1'; there is secret/1"),
        ([READ], "orders/1", "CREATE or UPDATE on Topic 'copy' is not allowed"),
    ],
)
async def test_who_attaches_a_table_may_read_the_topic_that_it_was_written_for(
    allowed: list[tuple[Action, str]], table: str, refusal: str | None
) -> None:
    """Also under another name; and nobody learns of tables that they may not read."""
    store = TieredStore()
    tiering = Tiering(store, rights(*allowed))
    work = tiering.attach(asked(), Attaching("s3://b", table, name="copy"))
    if refusal is None:
        assert (await work).value.name == "copy"
        return
    with pytest.raises(EntrepotError) as refused:
        await work
    assert refusal in refused.value.message and not store.tables.requests


async def test_a_topic_is_accepted_or_all_and_never_both() -> None:
    store, request = TieredStore(), asked(namespace="plant")
    tiering = Tiering(store, ALL)
    for body in (Accepting(), Accepting("orders", all=True)):
        with pytest.raises(EntrepotError, match="topic: name one, or say all"):
            await tiering.accept(request, body)
    assert request.told is None
    assert (await tiering.accept(request, Accepting("orders"))).accepted == "orders"
    assert request.told == ((f"topic {BELOW}", ""),)
    assert (await tiering.accept(request, Accepting(all=True))).accepted is None
    assert request.told == (("all tables", ""),)
    assert store.tables.requests == [BELOW, ""]


async def test_a_store_without_tables_says_so() -> None:
    request = asked()
    with pytest.raises(EntrepotError) as refused:
        await Tiering(MemoryStore(ManualClock()), ALL).accept(request, Accepting(all=True))
    assert (refused.value.code, request.told) == (Code.UNSUPPORTED, None)
