"""Refusals and lost answers: which are told as unknown, which go to another member, and which are final."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.store_client.etcd import EtcdKeyValues
from entrepot.store_client.etcd.calls import TRANSACTION, Broken
from entrepot.store_client.etcd.refusals import Kind, refusal_of
from tests.support.cases import cases
from tests.support.etcd.server import EtcdServer, EtcdState, Fault
from tests.support.stores import steps
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.etcd.conftest import Open

S = grpc.StatusCode
A = KeyValueChange("a", b"1")


@cases(
    "status, text, kind, code",
    [
        (S.UNAVAILABLE, "etcdserver: no leader", Kind.ELSEWHERE, Code.UNAVAILABLE),
        (S.UNAVAILABLE, "failed to connect to all addresses; last error: refused", Kind.ELSEWHERE, Code.UNAVAILABLE),
        (S.UNAVAILABLE, "DNS resolution failed for etcd-1:2379", Kind.ELSEWHERE, Code.UNAVAILABLE),
        (S.FAILED_PRECONDITION, "etcdserver: rpc not supported for learner", Kind.ELSEWHERE, Code.UNAVAILABLE),
        (S.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Kind.ELSEWHERE, Code.TOO_MANY_REQUESTS),
        (S.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", Kind.FINAL, Code.STORAGE_FULL),
        (S.RESOURCE_EXHAUSTED, "grpc: received message larger than max (3 vs. 2)", Kind.FINAL, Code.BAD_REQUEST),
        (S.INVALID_ARGUMENT, "etcdserver: request is too large", Kind.FINAL, Code.BAD_REQUEST),
        (S.INVALID_ARGUMENT, "etcdserver: too many operations in txn request", Kind.FINAL, Code.BAD_REQUEST),
        (S.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID", Kind.FINAL, Code.FORBIDDEN),
        (S.PERMISSION_DENIED, "etcdserver: permission denied", Kind.FINAL, Code.FORBIDDEN),
        (S.INVALID_ARGUMENT, "etcdserver: user name is empty", Kind.NEW_TOKEN, Code.FORBIDDEN),
        (S.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", Kind.NEW_TOKEN, Code.FORBIDDEN),
        (S.UNAUTHENTICATED, "etcdserver: invalid auth token", Kind.NEW_TOKEN, Code.FORBIDDEN),
        (S.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", Kind.COMPACTED, Code.UNAVAILABLE),
        (S.DEADLINE_EXCEEDED, "Deadline Exceeded", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNAVAILABLE, "etcdserver: request timed out", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNAVAILABLE, "etcdserver: leader changed", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNAVAILABLE, "etcdserver: server stopped", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNAVAILABLE, "Stream removed (recvmsg: Connection reset by peer)", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNAVAILABLE, "sendmsg: Broken pipe (32)", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.CANCELLED, "the channel was closed", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.INTERNAL, "anything", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
        (S.UNKNOWN, "anything", Kind.UNKNOWN, Code.OUTCOME_UNKNOWN),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_meaning_of_a_failed_call(status: grpc.StatusCode, text: str, kind: Kind, code: Code):
    found = refusal_of(Broken(status, text))
    assert (found.kind, found.code) == (kind, code)


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
async def test_a_write_without_an_answer_is_never_repeated(
    server: EtcdServer, second: EtcdServer, opened: Open, is_done: bool
):
    key_values = await opened(server, second)
    server.fail(TRANSACTION, Fault(S.UNAVAILABLE, "Stream removed", is_done=is_done))
    assert await steps.refusal_of(key_values.write([A])) is Code.OUTCOME_UNKNOWN
    assert (server.asked[TRANSACTION.name], second.asked[TRANSACTION.name]) == (1, 0)
    [kept] = await key_values.get(["a"])
    assert (kept is not None) == is_done
    assert second.asked[TRANSACTION.name] == 1, "calls have left the member"


async def test_a_write_that_hangs_has_a_deadline(server: EtcdServer, second: EtcdServer, opened: Open):
    key_values = await opened(server, second, request_seconds=0.2)
    server.fail(TRANSACTION, Fault(None))
    assert await steps.refusal_of(key_values.write([A])) is Code.OUTCOME_UNKNOWN
    assert second.asked[TRANSACTION.name] == 0


async def test_what_is_certainly_not_done_goes_to_the_next_member(server: EtcdServer, second: EtcdServer, opened: Open):
    key_values = await opened(server, second)
    server.fail(TRANSACTION, Fault(S.UNAVAILABLE, "etcdserver: no leader"))
    await key_values.write([A])
    assert (server.asked[TRANSACTION.name], second.asked[TRANSACTION.name]) == (1, 1)


async def test_a_read_goes_to_the_next_member(server: EtcdServer, second: EtcdServer, opened: Open):
    key_values = await opened(server, second)
    await key_values.write([A])
    server.fail(TRANSACTION, Fault(S.UNAVAILABLE, "etcdserver: request timed out"))
    [kept] = await key_values.get(["a"])
    assert kept is not None and kept.value == b"1"


@cases(
    "status, text, code",
    [
        (S.UNAVAILABLE, "etcdserver: no leader", Code.UNAVAILABLE),
        (S.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Code.TOO_MANY_REQUESTS),
    ],
    ids=["no leader", "too many"],
)
async def test_patience_has_an_end(server: EtcdServer, opened: Open, status: grpc.StatusCode, text: str, code: Code):
    key_values = await opened(patience_seconds=0.0)
    server.fail(TRANSACTION, Fault(status, text))
    assert await steps.refusal_of(key_values.write([A])) is code


async def test_a_full_database_says_so(server: EtcdServer, key_values: EtcdKeyValues):
    server.fail(TRANSACTION, Fault(S.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"))
    assert await steps.refusal_of(key_values.write([A])) is Code.STORAGE_FULL


async def test_no_call_is_answered_after_the_end(server: EtcdServer, key_values: EtcdKeyValues):
    server.fail(TRANSACTION, Fault(None))
    under_way = asyncio.create_task(key_values.write([A]))
    await until(lambda: server.asked[TRANSACTION.name], "it is asked")
    await key_values.close()
    with pytest.raises(EntrepotError) as told:
        await asyncio.wait_for(under_way, PATIENCE_SECONDS)
    assert told.value.code is Code.OUTCOME_UNKNOWN
    assert await steps.refusal_of(key_values.get(["a"])) is Code.UNAVAILABLE


async def test_every_call_asks_for_a_leader(server: EtcdServer, key_values: EtcdKeyValues):
    key_values.watch("", lambda events: None, lambda: None)
    await key_values.write([A])
    assert server.metadata and all(each["hasleader"] == "true" for each in server.metadata)
    assert all("token" not in each for each in server.metadata)


# -- users -----------------------------------------------------------------------------------------------------------


async def test_calls_share_one_token(server: EtcdServer, state: EtcdState, opened: Open):
    state.user = "gateway"
    key_values = await opened(user="gateway", password="right", probe_seconds=60.0)
    await asyncio.gather(*(key_values.get(["a"]) for _ in range(5)))
    assert state.logins == 1
    state.tokens.clear()
    await asyncio.gather(*(key_values.write([KeyValueChange(f"k{n}", b"")]) for n in range(5)))
    assert state.logins == 2, "asked for anew, once"


async def test_a_stream_gets_a_new_token(server: EtcdServer, state: EtcdState, opened: Open):
    state.user = "gateway"
    key_values = await opened(user="gateway", password="right", probe_seconds=60.0)
    begun = asyncio.Event()
    told: list[object] = []
    state.tokens.clear()
    key_values.watch("", told.append, begun.set)
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    state.tokens.clear()
    server.end_streams()
    await key_values.write([A])
    await until(lambda: told, "it goes on with another token")


@cases("others", [{}, {"user": "gateway", "password": "wrong"}], ids=["nobody", "wrong"])
async def test_strangers_are_refused(state: EtcdState, opened: Open, others: dict[str, str]):
    state.user = "gateway"
    assert await steps.refusal_of(opened(**others)) is Code.FORBIDDEN


async def test_a_user_where_nobody_is_asked(server: EtcdServer, opened: Open):
    key_values = await opened(user="gateway", password="right")
    await key_values.write([A])


async def test_its_figures_tell_calls_and_moves(server: EtcdServer, key_values: EtcdKeyValues):
    before = key_values.gauges()
    await key_values.write([KeyValueChange("a", b"1")])
    server.faults[TRANSACTION.name] = [Fault(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")]
    assert await key_values.get(["a"]) != [None]
    after = key_values.gauges()
    assert after["facts_calls"] >= before["facts_calls"] + 3
    assert after["facts_failed_calls"] == before["facts_failed_calls"] + 1
    assert after["facts_moves"] == before["facts_moves"] + 1
    assert after["facts_waiting_writes"] == 0
    assert after["facts_age_seconds"] >= 0
