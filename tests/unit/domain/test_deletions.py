"""The latest deletions are kept, those of the lowest revisions forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.server.definition_log import DELETED, DefinitionLog
from entrepot.domain import deletions
from entrepot.domain.deletions import Deletions
from entrepot.store_client.remote.definitions import BrokerView
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

LIMIT = 4
names = st.sampled_from([f"topic/{name}" for name in "abcdefghij"])


@pytest.fixture(autouse=True, scope="module")
def few():
    patch = pytest.MonkeyPatch()
    patch.setattr(deletions, "MAX_DELETIONS", LIMIT)
    yield
    patch.undo()


@given(st.lists(st.dictionaries(names, st.integers(0, 20), max_size=6), max_size=20))
def test_the_latest_are_kept_in_whatever_pieces_they_come(pieces):
    found, kept = Deletions(), dict[str, int]()
    for piece in pieces:
        before = dict(found)
        news, forgotten = found.note(piece)
        merged = dict(before)
        for what, revision in piece.items():
            merged[what] = max(revision, merged.get(what, 0))
        latest = sorted(((revision, what) for what, revision in merged.items() if revision), reverse=True)[:LIMIT]
        kept = {what: revision for revision, what in latest}
        assert found == kept
        assert set(news) == {what for what in kept if kept[what] != before.get(what)}
        assert before.keys() - kept.keys() <= set(forgotten)
        assert not set(forgotten) & kept.keys()
    assert [what for _, what in found._order] == sorted(kept, key=lambda what: (kept[what], what))


async def test_a_broker_removes_what_it_forgets_from_its_key_values():
    key_values = MemoryStore(ManualClock()).key_values

    async def stored() -> dict[str, int]:
        return {found.key.removeprefix(DELETED): int(found.value) for found in await key_values.scan(DELETED)}

    log = DefinitionLog(key_values)
    for revision in range(1, 7):
        await log.note_deleted("topic", f"t{revision}", revision)
    assert await stored() == log.deleted == {f"topic/t{revision}": revision for revision in range(3, 7)}
    await log.note_deleted("topic", "old", 1)
    assert await stored() == log.deleted, "it is older than all that are kept"
    assert not log.is_deleted("topic", "t1", 1)
    assert log.is_deleted("topic", "t6", 6)


async def test_what_is_stored_beyond_the_limit_goes_at_the_next_start(monkeypatch: pytest.MonkeyPatch):
    key_values = MemoryStore(ManualClock()).key_values
    with monkeypatch.context() as patch:
        patch.setattr(deletions, "MAX_DELETIONS", 100)
        log = DefinitionLog(key_values)
        for revision in range(1, 21):
            await log.note_deleted("topic", f"t{revision}", revision)
    log = DefinitionLog(key_values)
    await log.load()
    assert log.deleted == {f"topic/t{revision}": revision for revision in range(17, 21)}
    assert len(await key_values.scan(DELETED)) == LIMIT


def test_a_gateway_forgets_the_same():
    view = BrokerView()
    view.dropped_namespace("n", 1)
    for revision in range(2, 7):
        view.dropped_topic(f"t{revision}", revision)
    assert view.deleted == {f"topic/t{revision}": revision for revision in range(3, 7)}
    assert not view.gone_namespaces
