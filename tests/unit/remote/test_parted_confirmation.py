"""PartedConfirmation: every callback once, when its own part is settled; and what sends the parts."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.remoting.link import ConnectionLostError, OnAnswer
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty, in_doubt
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.message_batch import decode_messages
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.appending import Appending, PartedConfirmation
from entrepot.store_client.remote.cluster import Cluster

SIZE = 6


class Sent:
    """A broker that keeps what it is asked, or is away."""

    known: Any = None
    is_ready = True

    def __init__(self, problem: str = "", number: int = 0) -> None:
        self.problem, self.number = problem, number
        self.requests: list[tuple[list[Message], OnAnswer]] = []
        self.operations: list[object] = []

    def check_ready(self) -> None:
        if self.problem:
            raise ConnectionLostError(self.problem)

    def send(self, operation: object, payload: bytes, on_answer: OnAnswer) -> int:
        self.requests.append((decode_messages(payload), on_answer))
        self.operations.append(operation)
        return len(self.requests)


def appending(brokers: dict[int, Sent]) -> Appending:
    cluster = SimpleNamespace(of_number=brokers.get, took=lambda *_: None, failed=lambda *_: None)
    cluster.ready_watchers, cluster.confirmed_here = [], set()
    return Appending(cast("Cluster", cluster))


def message(broker: int, body: bytes = b"", **others: object) -> Message:
    return Message("t", body, queue_id=first_queue(broker), **others)  # type: ignore[arg-type]


async def test_a_part_that_fails_at_once_does_not_settle_the_others():
    away, there = Sent("away"), Sent()
    told: list[EntrepotError | None] = []
    confirmation = appending({0: away, 1: there}).append([message(0), message(1)])
    confirmation.when_settled(told.append)
    assert not confirmation.settled and not told
    there.requests[0][1](EntrepotError(Code.OUTCOME_UNKNOWN, "lost"), b"")
    assert [error.code for error in told if error] == [Code.OUTCOME_UNKNOWN]
    assert confirmation.refusals is not None
    assert [refusal and refusal.code for refusal in confirmation.refusals] == [Code.UNAVAILABLE, None]


async def test_what_rides_is_stored_only_where_it_is_missing():
    """Its client may have sent it again, through another gateway."""
    broker = Sent("away")
    broker.known = SimpleNamespace(replicas=((1, "a:1"),), epoch=5)
    cluster = SimpleNamespace(of_number={0: broker}.get, took=lambda *_: None, failed=lambda *_: None)
    cluster.ready_watchers, cluster.confirmed_here = [], set()
    confirmation = Appending(cast("Cluster", cluster)).append([message(0)])
    assert not confirmation.settled and not broker.requests
    broker.problem = ""
    for watcher in cluster.ready_watchers:
        watcher(broker, True)
    assert broker.operations == [wire.APPEND_MISSING]
    broker.requests[0][1](None, encode(None))
    assert confirmation.settled and confirmation.failure is None


async def test_what_was_withdrawn_while_it_waited_is_not_sent():
    """An earlier message of its sender is in doubt for good: what follows comes again behind that one."""
    broker = Sent()
    broker.known = SimpleNamespace(replicas=((1, "a:1"),), epoch=5)
    cluster = SimpleNamespace(of_number={0: broker}.get, took=lambda *_: None, failed=lambda *_: None)
    cluster.ready_watchers, cluster.confirmed_here = [], set()
    sender = Appending(cast("Cluster", cluster))
    doubtful = sender.append([message(0, b"first")])
    broker.is_ready, broker.problem = False, "away"
    mixed, alone = (
        sender.append([message(0, body) for body in bodies]) for bodies in ((b"mine", b"other"), (b"mine",))
    )
    withdrawn: list[bool] = []
    mixed.is_withdrawn = lambda place: bool(withdrawn) and place == 0
    alone.is_withdrawn = lambda place: bool(withdrawn)
    doubtful.when_settled(lambda failure: withdrawn.append(True))
    broker.requests[0][1](EntrepotError(Code.OUTCOME_UNKNOWN, "lost"), b"")
    assert not doubtful.settled, "the next master may tell"
    broker.problem, broker.is_ready = "", True
    for watcher in cluster.ready_watchers:
        watcher(broker, True)
    assert doubtful.failure is not None, "the same master came back: it cannot tell"
    assert [[each.body for each in sent] for sent, _ in broker.requests[1:]] == [[b"other"]]
    broker.requests[1][1](None, encode(None))
    assert mixed.settled and alone.settled and mixed.failure is None
    for confirmation, codes in ((mixed, [Code.OUTCOME_UNKNOWN, None]), (alone, [Code.OUTCOME_UNKNOWN])):
        assert confirmation.refusals is not None
        assert [refusal and refusal.code for refusal in confirmation.refusals] == codes


async def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown():
    for answer in (b"", b"\xc1", encode([None]), encode([None, None, None]), encode("x")):
        there = Sent()
        confirmation = appending({0: there}).append([message(0), message(0)])
        there.requests[0][1](None, answer)
        assert confirmation.failure is not None and confirmation.failure.code == Code.OUTCOME_UNKNOWN


async def test_what_was_too_large_for_a_frame_was_not_taken():
    there = Sent()
    confirmation = appending({0: there}).append([message(0)])
    there.requests[0][1](EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "large"), b"")
    assert confirmation.failure is None and confirmation.refusals is not None


async def test_batches_are_cut_by_broker_and_by_size():
    brokers = {0: Sent(), 1: Sent()}
    batch = [message(at % 2, bytes([at]) * (3 << 20)) for at in range(10)]
    confirmation = appending(brokers).append([*batch, message(7)])
    bodies = [[m.body[0] for m in sent] for broker in brokers.values() for sent, _ in broker.requests]
    assert bodies == [[0, 2, 4], [6, 8], [1, 3, 5], [7, 9]]
    for broker in brokers.values():
        for sent, answered in broker.requests:
            assert not confirmation.settled
            answered(None, encode([None] * len(sent)))
    assert confirmation.settled and confirmation.failure is None
    assert confirmation.refusals is not None and confirmation.refusals[10] is not None
    assert list(confirmation.refusals[:10]) == [None] * 10


async def test_further_queues_of_other_brokers_get_a_message_of_their_own():
    brokers = {0: Sent(), 1: Sent()}
    further = (("u", 5), ("v", first_queue(1) + 2), ("w", first_queue(1) + 3))
    appending(brokers).append([message(0, b"x", further_queues=further)])
    [home], [other] = brokers[0].requests[0][0], brokers[1].requests[0][0]
    assert (home.topic, home.queue_id, home.further_queues) == ("t", 0, (("u", 5),))
    assert (other.topic, other.queue_id, other.further_queues) == ("v", 2, (("w", 3),))
    assert other.system_text(SystemProperty.SENT_TO) == "t"


def spread(*brokers: int) -> Message:
    """A message with a queue on each of these brokers."""
    return message(brokers[0], b"x", further_queues=tuple(("u", first_queue(broker)) for broker in brokers[1:]))


def codes_of(confirmation: Confirmation) -> list[Code | None]:
    return [None if refusal is None else refusal.code for refusal in confirmation.refusals or ()]


@pytest.mark.parametrize("away", [0, 1])
async def test_what_is_stored_in_part_is_in_doubt(away: int):
    """Who is told that it is nowhere sends it as a new one: then it is there twice."""
    brokers = {number: Sent("away" if number == away else "", number) for number in range(2)}
    confirmation = appending(brokers).append([spread(0, 1), message(away)])
    brokers[1 - away].requests[0][1](None, encode(None))
    assert confirmation.failure is None
    assert codes_of(confirmation) == [Code.OUTCOME_UNKNOWN, Code.UNAVAILABLE]


async def test_in_whichever_order_the_brokers_answer():
    for order in permutations(range(3)):
        brokers = {number: Sent(number=number) for number in range(3)}
        confirmation = appending(brokers).append([spread(0, 1, 2)])
        away = encode([EntrepotError(Code.UNAVAILABLE, "too few are in sync")])
        for number in order:
            brokers[number].requests[0][1](None, encode(None) if number == 1 else away)
        assert codes_of(confirmation) == [Code.OUTCOME_UNKNOWN]
        assert confirmation.refusals is not None and confirmation.refusals[0] is not None
        assert confirmation.refusals[0].message == "it may be stored already: too few are in sync"


@pytest.mark.parametrize("code", [Code.STORAGE_FULL, Code.INTERNAL_ERROR, Code.TOO_MANY_REQUESTS])
async def test_a_broker_without_room_leaves_it_in_doubt_too(code: Code):
    brokers = {number: Sent(number=number) for number in range(2)}
    confirmation = appending(brokers).append([spread(0, 1)])
    brokers[1].requests[0][1](None, encode([EntrepotError(code, "not now")]))
    brokers[0].requests[0][1](None, encode(None))
    assert codes_of(confirmation) == [Code.OUTCOME_UNKNOWN]


async def test_a_refusal_for_good_counts_whenever_it_comes():
    for order in permutations(range(3)):
        brokers = {number: Sent(number=number) for number in range(3)}
        confirmation = appending(brokers).append([spread(0, 1, 2)])
        answers = [None, [EntrepotError(Code.UNAVAILABLE, "away")], [EntrepotError(Code.FORBIDDEN, "no")]]
        for number in order:
            brokers[number].requests[0][1](None, encode(answers[number]))
        assert codes_of(confirmation) == [Code.FORBIDDEN], order


async def test_what_is_stored_nowhere_or_refused_for_good_is_refused():
    confirmation = appending({0: Sent("away"), 1: Sent("away", 1)}).append([spread(0, 1)])
    assert codes_of(confirmation) == [Code.UNAVAILABLE]
    brokers = {0: Sent(), 1: Sent(number=1)}
    confirmation = appending(brokers).append([spread(0, 1)])
    brokers[0].requests[0][1](None, encode(None))
    brokers[1].requests[0][1](None, encode([EntrepotError(Code.FORBIDDEN, "it is not writable")]))
    assert codes_of(confirmation) == [Code.FORBIDDEN]


async def test_what_an_earlier_try_may_have_stored_stays_in_doubt_while_its_broker_is_away():
    confirmation = appending({0: Sent("away")}).append([in_doubt(message(0)), message(0)])
    assert codes_of(confirmation) == [Code.OUTCOME_UNKNOWN, Code.UNAVAILABLE]


async def test_settle_waits_for_every_batch():
    there = Sent()
    appended = appending({0: there})
    appended.append([message(0)])
    appended.append([message(0)])
    for _, answered in there.requests:
        answered(None, encode(None))
    await appended.settle()
    assert not appended._unsettled


PARTS = st.lists(st.sets(st.integers(0, SIZE - 1), min_size=1).map(sorted), min_size=1, max_size=4)
RANGES = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(lambda r: (r[0], max(r[1], r[0] + 1)))


@given(PARTS, st.lists(st.tuples(st.integers(0, 4), RANGES), max_size=8), st.data())
def test_callbacks_run_once_when_their_parts_are_settled(parts: list[list[int]], asked: list, data: st.DataObject):
    confirmation = PartedConfirmation(SIZE)
    for indexes in parts:
        confirmation.add_part(indexes)
    order = data.draw(st.permutations(range(len(parts))))
    failing = data.draw(st.sets(st.sampled_from(range(len(parts)))))
    failures = {part: EntrepotError(Code.OUTCOME_UNKNOWN, str(part)) for part in failing}
    settled: set[int] = set()
    told: list[tuple[int, set[int], EntrepotError | None]] = []
    wanted: dict[int, set[int]] = {}

    def ask(step: int) -> None:
        for number, (when, (first, last)) in enumerate(asked):
            if when == step:
                is_whole = len(parts) == 1 or (first, last) == (0, SIZE)
                wanted[number] = {at for at, p in enumerate(parts) if is_whole or any(first <= i < last for i in p)}
                confirmation.when_settled(partial(note, number), first, last)

    def note(number: int, failure: EntrepotError | None) -> None:
        told.append((number, set(settled), failure))

    for step, part in enumerate(order):
        ask(step)
        settled.add(part)
        confirmation.settle_part(part, failures.get(part))
        done = {number for number, parts_of in wanted.items() if parts_of <= settled}
        assert sorted(number for number, _, _ in told) == sorted(done)
        assert confirmation.settled == (len(settled) == len(parts))
    for number, _, failure in told:
        expected = [failures[part] for part in sorted(wanted[number]) if part in failures]
        assert failure is (expected[0] if expected else None)


def test_a_callback_may_ask_again():
    confirmation = PartedConfirmation(2)
    parts = [confirmation.add_part([0]), confirmation.add_part([1])]
    told: list[str] = []

    def again(failure: EntrepotError | None) -> None:
        told.append("first")
        confirmation.when_settled(lambda _: told.append("again"), 0, 1)
        confirmation.when_settled(lambda _: told.append("other"), 1, 2)

    confirmation.when_settled(again, 0, 1)
    confirmation.settle_part(parts[0])
    assert told == ["first", "again"]
    confirmation.settle_part(parts[1])
    assert told == ["first", "again", "other"]
