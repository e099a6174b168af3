"""Watches: what they tell, where they go on, and when they begin anew."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from entrepot.domain.key_value import KeyValueChange, KeyValueEvent
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd import EtcdKeyValues
from entrepot.store_client.etcd.calls import RANGE, TRANSACTION
from tests.support.etcd.server import EtcdServer, EtcdState, Fault
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.etcd.conftest import ROOT, Open, Seen


async def put(key_values: EtcdKeyValues, *keys: str, value: bytes = b"v") -> int:
    return await key_values.write([KeyValueChange(key, value) for key in keys])


async def begun(key_values: EtcdKeyValues, prefix: str = "") -> Seen:
    seen = Seen(key_values, prefix)
    await until(lambda: seen.beginnings == 1, "it begins")
    return seen


async def behind_back(state: EtcdState, *keys: str) -> int:
    """Write as another gateway does, while nobody may watch; the revision."""
    state.do([pb.RequestOp(request_put=pb.PutRequest(key=(ROOT + key).encode(), value=b"v")) for key in keys])
    return state.revision


async def test_fragments_of_several_writes_are_told_write_by_write(
    server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues
):
    seen = await begun(key_values)
    server.may_begin.clear()
    server.end_streams()
    first, second = await behind_back(state, "a", "b", "c"), await behind_back(state, "a", "d")
    server.fragment_events = 2
    server.may_begin.set()
    await until(lambda: len(seen.calls) == 2, "two writes, of three fragments")
    assert seen.calls == [
        [KeyValueEvent(key, b"v", first) for key in "abc"],
        [KeyValueEvent(key, b"v", second) for key in "ad"],
    ]
    assert all(wanted.fragment and wanted.progress_notify for wanted in server.wanted)


async def test_a_stream_that_breaks_goes_on_behind_the_last_write_told(
    server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues
):
    seen = await begun(key_values)
    versions = [await put(key_values, "a") for _ in range(3)]
    await until(lambda: len(seen.calls) == 3, "three writes")
    server.end_streams()
    versions += [await behind_back(state, "a"), await behind_back(state, "a")]
    await until(lambda: len(seen.calls) == 5, "nothing is left out")
    assert [events[0].version for events in seen.calls] == versions
    assert seen.beginnings == 1
    assert server.wanted[-1].start_revision == versions[2] + 1


async def test_a_break_between_fragments_tells_the_write_once(
    server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues
):
    seen = await begun(key_values)
    [watch] = key_values._watches
    part = pb.WatchResponse(header=state.header(), fragment=True)
    part.events.add().kv.mod_revision = state.revision + 1
    watch._take(part)
    server.end_streams()
    version = await put(key_values, "a", "b")
    await until(lambda: seen.calls, "the whole write")
    assert seen.calls == [[KeyValueEvent("a", b"v", version), KeyValueEvent("b", b"v", version)]]


async def test_progress_moves_a_quiet_watch_on(server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues):
    seen = await begun(key_values, "quiet/")
    await put(key_values, "busy")
    version = await put(key_values, "busy")
    [watch] = key_values._watches
    await until(lambda: watch._next == version + 1, "progress")
    server.may_begin.clear()
    server.end_streams()
    state.compacted = version
    server.may_begin.set()
    await put(key_values, "quiet/a")
    await until(lambda: seen.calls, "nothing was compacted that it wanted")
    assert seen.beginnings == 1


async def test_a_watch_begins_anew_behind_a_compaction(server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues):
    seen = await begun(key_values)
    server.may_begin.clear()
    server.end_streams()
    await behind_back(state, "a")
    state.compacted = await behind_back(state, "a")
    server.may_begin.set()
    await until(lambda: seen.beginnings == 2, "it begins anew")
    assert seen.calls == []
    version = await put(key_values, "a")
    await until(lambda: seen.calls, "it goes on")
    assert seen.calls == [[KeyValueEvent("a", b"v", version)]]


@pytest.mark.parametrize("cluster", [7, 8], ids=["the same", "another cluster"])
async def test_a_watch_begins_anew_in_a_cluster_that_was_restored(
    server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues, cluster: int
):
    seen = await begun(key_values)
    for _ in range(4):
        await put(key_values, "a")
    await until(lambda: len(seen.calls) == 4, "told")
    state.cluster = cluster
    if cluster == 7:
        state.revision -= 2
        del state.history[-2:]
    server.end_streams()
    await until(lambda: seen.beginnings == 2, "it begins anew")
    await put(key_values, "a")
    await until(lambda: len(seen.calls) == 5, "it goes on")


async def test_watches_leave_a_member_with_the_calls(server: EtcdServer, second: EtcdServer, opened: Open):
    key_values = await opened(server, second, request_seconds=0.2)
    seen = await begun(key_values)
    server.is_silent = True
    server.fail(TRANSACTION, Fault(None))
    server.fail(RANGE, *[Fault(None)] * 3)
    await key_values.get(["a"])
    await put(key_values, "a")
    await until(lambda: seen.calls, "told by the other member")
    assert second.wanted and seen.beginnings == 1


async def test_a_stream_that_says_nothing_is_given_up(server: EtcdServer, state: EtcdState, opened: Open):
    key_values = await opened()
    seen = await begun(key_values)
    server.is_silent = True
    await put(key_values, "a")
    await until(lambda: len(server.wanted) > 1, "another stream")
    server.is_silent = False
    await until(lambda: seen.calls, "nothing is left out")
    assert seen.beginnings == 1


async def test_a_call_is_answered_after_the_beginning_of_a_watch(server: EtcdServer, key_values: EtcdKeyValues):
    server.may_begin.clear()
    seen = Seen(key_values)
    asked = asyncio.create_task(key_values.get(["a"]))
    await until(lambda: server.wanted, "the watch is asked for")
    assert not server.asked[TRANSACTION.name]
    server.may_begin.set()
    await asyncio.wait_for(asked, PATIENCE_SECONDS)
    assert seen.beginnings == 1


async def test_calls_go_on_where_a_watch_cannot_begin(server: EtcdServer, opened: Open):
    key_values = await opened(probe_seconds=60.0)
    server.fail(RANGE, Fault(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader"))
    seen = Seen(key_values)
    await put(key_values, "a")
    await until(lambda: seen.beginnings == 1, "later")


async def test_a_watcher_that_fails_is_told_on_and_disturbs_no_other(key_values: EtcdKeyValues):
    told: list[list[KeyValueEvent]] = []

    def fail(events: list[KeyValueEvent]) -> None:
        told.append(events)
        if len(told) == 1:
            raise RuntimeError("a fault of the watcher")

    key_values.watch("", fail, lambda: None)
    seen = await begun(key_values)
    await put(key_values, "a")
    await put(key_values, "a")
    await until(lambda: len(seen.calls) == len(told) == 2, "both writes, at both")


async def test_a_watch_ends_at_once(key_values: EtcdKeyValues):
    ended = await begun(key_values)
    goes_on = await begun(key_values)
    ended.stop()
    await put(key_values, "a")
    await until(lambda: goes_on.calls, "the one that goes on")
    assert ended.calls == []


async def test_a_watch_that_ends_in_its_callback_is_told_no_more(
    server: EtcdServer, state: EtcdState, key_values: EtcdKeyValues
):
    told: list[list[KeyValueEvent]] = []
    begins = asyncio.Event()

    def take(events: list[KeyValueEvent]) -> None:
        told.append(events)
        stop()

    stop = key_values.watch("", take, begins.set)
    seen = await begun(key_values)
    await asyncio.wait_for(begins.wait(), PATIENCE_SECONDS)
    server.may_begin.clear()
    server.end_streams()
    for _ in range(2):  # one response has both
        await behind_back(state, "a")
    server.may_begin.set()
    await until(lambda: len(seen.calls) == 2, "both, at the other one")
    assert len(told) == 1


# -- age -------------------------------------------------------------------------------------------------------------


async def test_age_is_that_of_the_last_certain_moment(server: EtcdServer, opened: Open):
    key_values = await opened(patience_seconds=0.0)
    await begun(key_values)
    await until(lambda: key_values.age_seconds() == 0.0, "it is current")
    server.fail(RANGE, *[Fault(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")] * 10_000)
    await until(lambda: key_values.age_seconds() > 0.3, "nobody says what is new")
    before = key_values.age_seconds()
    await until(lambda: key_values.age_seconds() > before, "it grows")
    server.faults.clear()
    await until(lambda: key_values.age_seconds() == 0.0, "it is current again")


async def test_age_counts_what_no_watch_has_told(server: EtcdServer, state: EtcdState, opened: Open):
    key_values = await opened()
    await begun(key_values)
    await until(lambda: key_values.age_seconds() == 0.0, "it is current")
    server.is_silent = True
    server.may_begin.clear()
    await behind_back(state, "a")
    await until(lambda: key_values.age_seconds() > 0.3, "reads are answered, and yet nobody tells the change")
    server.is_silent = False
    server.may_begin.set()
    server.end_streams()
    await until(lambda: key_values.age_seconds() == 0.0, "it is told")


async def test_a_new_beginning_is_old_until_watchers_have_settled(server: EtcdServer, state: EtcdState, opened: Open):
    key_values = await opened()
    seen = await begun(key_values)
    await until(lambda: key_values.age_seconds() == 0.0, "it is current")
    server.may_begin.clear()
    server.end_streams()
    state.compacted = await behind_back(state, "a")
    await until(lambda: key_values.age_seconds() > 0.3, "it does not know of the change")
    server.may_begin.set()
    await until(lambda: seen.beginnings == 2, "it begins anew")
    assert key_values.age_seconds() > 0.3, "the watcher looks at everything first"
    await until(lambda: key_values.age_seconds() == 0.0, "it is current")
