"""Deletions that a broker tells at a change: those since the last one, however many there were before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.streams import DefinitionStream
from entrepot.domain.deletions import Deletions
from entrepot.domain.route import BrokerInfo
from entrepot.protocols.wire.operations import WATCH_DEFINITIONS, Definitions
from entrepot.store_client.remote.definitions import BrokerView, plan_repairs
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.model_store.key_values import KeyValues
from tests.support.stores.replaced import replaced

INFO = BrokerInfo("b", 1, "127.0.0.1:1", "s", 1)


class CountedDeletions(Deletions):
    """Deletions, and how many of them were read."""

    read = 0

    def __getitem__(self, what: str) -> int:
        self.read += 1
        return super().__getitem__(what)

    def get(self, what: str, default: int = 0) -> int:  # type: ignore[override]
        self.read += 1
        return super().get(what, default)

    def __iter__(self) -> Any:
        self.read += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.read += len(self)
        return super().items()


class Told:
    """A stream's end: what it was sent."""

    def __init__(self) -> None:
        self.has_credit = True
        self.items: list[Definitions] = []
        self.on_credit = self.on_close = lambda: None

    def send(self, payload: bytes) -> None:
        assert WATCH_DEFINITIONS.result is not None
        self.items.append(WATCH_DEFINITIONS.result.decode(payload))


async def test_each_deletion_is_told_once():
    log, told = DefinitionLog(KeyValues()), Told()
    log.deleted = CountedDeletions()
    for number in range(1000):
        await log.note_deleted("topic", f"t{number}", number + 1)
    watched = replaced(MemoryStore(ManualClock()).topology, watch_groups=lambda on_group: lambda: None)
    store: Any = SimpleNamespace(topology=watched)
    stream = DefinitionStream(store, log, lambda: INFO, told, lambda: True)  # type: ignore[arg-type]
    assert told.items[0].deleted == {f"topic/t{number}": number + 1 for number in range(1000)}
    log.deleted.read = 0
    await log.note_deleted("topic", "t5", 6)
    await log.note_deleted("topic", "t5", 2000)
    await log.note_deleted("group", "g", 2001)
    stream.changed()
    stream.tell_now()
    assert told.items[1].deleted == {"topic/t5": 2000, "group/g": 2001}
    assert log.deleted.read == 3 + 1 + 2, "three were looked up, one replaced and two told: the others cost nothing"
    stream.changed()
    stream.tell_now()
    assert len(told.items) == 2, "there is nothing more to tell"
    told.on_close()
    await log.note_deleted("group", "g", 2002)
    assert not stream._dirty_deletions


def test_a_change_is_compared_with_its_own_deletions():
    """A gateway that sees brokers disagree looks at what changed, however much was ever deleted."""
    views = [BrokerView(f"broker-{number}") for number in range(2)]
    for view in views:
        view.deleted = CountedDeletions()
        view.deleted.note({f"topic/t{number}": number + 1 for number in range(1000)})
    views[0].dropped_topic("t5", 2000)
    views[0].dropped_group("g", 2001)
    views[0].dropped_namespace("n", 2002)
    views[1].namespaces["n"] = 7
    for view in views:
        view.deleted.read = 0  # type: ignore[attr-defined]
    plan = plan_repairs(views[1], views, {"t5", "new"}, {"g"})
    assert (plan.gone_topics, plan.gone_groups) == ([("t5", 2000)], [("g", 2001)])
    assert plan.gone_namespaces == [("n", 2002)]
    assert plan == plan_repairs(views[1], views), "as if all were looked at"
    assert sum(view.deleted.read for view in views) > 2000, "which that does"  # type: ignore[attr-defined]
    for view in views:
        view.deleted.read = 0  # type: ignore[attr-defined]
    assert not plan_repairs(views[0], views, {"t5", "new"}, {"g"})
    assert sum(view.deleted.read for view in views) < 40  # type: ignore[attr-defined]
