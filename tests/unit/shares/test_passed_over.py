"""What becomes of messages that a consumer cannot take."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.delivery import DeliveryPlaces, MessageRun
from entrepot.domain.message import place_of_message
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.passed_over import (
    AGAIN_MS,
    FIRST_MS,
    LONGEST_ENDLESS_MS,
    LONGEST_MS,
    MAX_ATTEMPTS_IN_ORDER,
    PACE_MS,
    PassedOver,
    Untaken,
)
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all, by_consumer, give_back
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.unit.shares.held_tickets import NotingHolder

REASON = "a frame of 9 bytes exceeds 8"


def opened(clock: ManualClock | None = None) -> tuple[PassedOver, Incidents]:
    clock = clock or ManualClock()
    incidents = Incidents(clock)
    return PassedOver("a door", incidents, clock), incidents


@cases(
    "attempt, delay_ms",
    [(1, FIRST_MS), (2, 2 * FIRST_MS), (3, 4 * FIRST_MS), (4, 8 * FIRST_MS), (5, LONGEST_MS), (15, LONGEST_MS)],
)
def test_what_nobody_can_take_comes_again_later_each_time(attempt: int, delay_ms: int):
    passed, incidents = opened()
    holder = NotingHolder()
    passed.fail([Untaken(holder.ticket("m", attempt=attempt), REASON)])
    assert holder.released == [("m", delay_ms, False, REASON)]
    assert not holder.rejected and not incidents.counts


def test_the_groups_own_delay_holds_where_it_is_longer():
    slow = RetryPolicy(RetryKind.LIST, delays_ms=(1, 60_000))
    holder = NotingHolder(ConsumerGroup("g", retry=slow))
    passed, _ = opened()
    passed.fail([Untaken(holder.ticket("one", attempt=1), REASON), Untaken(holder.ticket("two", attempt=2), REASON)])
    assert [each[:2] for each in holder.released] == [("one", FIRST_MS), ("two", 60_000)]


def test_after_the_last_attempt_it_is_a_dead_letter_with_the_reason():
    holder = NotingHolder(ConsumerGroup("g", max_attempts=3))
    passed, incidents = opened()
    passed.fail([Untaken(holder.ticket(f"m{n}", attempt=n), REASON, "client") for n in (2, 3)])
    assert holder.rejected == [("m3", REASON)]
    assert [each[0] for each in holder.released] == ["m2"]
    assert dict(incidents.counts) == {("a door", Outcome.DEAD_LETTERED): 1}
    [kept] = incidents.last
    assert (kept.reason, kept.client, kept.place) == (REASON, "client", "t/-1@2")


def test_in_order_it_is_a_dead_letter_earlier_since_others_wait_for_it():
    holder = NotingHolder()
    passed, _ = opened()
    for n in (MAX_ATTEMPTS_IN_ORDER - 1, MAX_ATTEMPTS_IN_ORDER):
        for group in ("", "key"):
            passed.fail([Untaken(holder.ticket(f"{group}{n}", attempt=n, message_group=group), REASON)])
    assert [each[0] for each in holder.rejected] == [f"key{MAX_ATTEMPTS_IN_ORDER}"]
    few = NotingHolder(ConsumerGroup("g", max_attempts=2))
    passed.fail([Untaken(few.ticket("m", attempt=2, message_group="key"), REASON)])
    assert few.rejected == [("m", REASON)]


def test_without_a_limit_of_attempts_it_waits_longer_and_for_ever():
    holder = NotingHolder(ConsumerGroup("g", UNLIMITED_ATTEMPTS))
    passed, _ = opened()
    passed.fail([Untaken(holder.ticket("m", attempt=60_000), REASON)])
    assert holder.released == [("m", LONGEST_ENDLESS_MS, False, REASON)]
    assert not holder.rejected


def test_what_came_back_too_often_by_other_rules_is_left_to_them():
    holder, settled = NotingHolder(ConsumerGroup("g", max_attempts=1)), []

    def came_back(tickets: Sequence[Ticket]) -> Sequence[Ticket]:
        settled.extend(tickets[:1])
        return tickets[:1]

    clock = ManualClock()
    passed = PassedOver("a door", Incidents(clock), clock, came_back)
    passed.fail([Untaken(holder.ticket(name), REASON) for name in ("spent", "other")])
    assert [each.message.body for each in settled] == [b"spent"]
    assert settled[0].is_open
    assert holder.rejected == [("other", REASON)]


def test_what_ended_meanwhile_stays_ended():
    holder = NotingHolder(ConsumerGroup("g", max_attempts=1))
    passed, incidents = opened()
    ticket = holder.ticket("m")
    ticket.acknowledge()
    passed.fail([Untaken(ticket, REASON)])
    passed.wait([ticket])
    assert (holder.released, holder.rejected, holder.acknowledged) == ([], [], ["m"])
    assert not incidents.counts


def test_those_whose_taker_has_no_room_come_again_one_after_the_other_and_that_is_no_attempt():
    clock = ManualClock()
    passed, incidents = opened(clock)
    holder = NotingHolder()
    passed.wait([holder.ticket("a"), holder.ticket("b")])
    passed.wait([holder.ticket("c")])
    clock.advance(10_000)
    passed.wait([holder.ticket("d")])
    assert holder.released == [
        ("a", AGAIN_MS, True, ""),
        ("b", AGAIN_MS, True, ""),
        ("c", AGAIN_MS + 2 * PACE_MS, True, ""),
        ("d", AGAIN_MS, True, ""),
    ]
    assert not incidents.counts


def test_they_are_told_once_for_each_reason_and_client_with_their_number():
    passed, incidents = opened()
    holder = NotingHolder()
    fault = ValueError("no")
    passed.note([Untaken(holder.ticket("m"), REASON, client) for client in ("a", "b", "a")])
    passed.note([Untaken(holder.ticket("m"), "it failed", fault=fault)])
    assert [(each.outcome, each.client, each.count) for each in incidents.last] == [
        (Outcome.PASSED_OVER, "a", 2),
        (Outcome.PASSED_OVER, "b", 1),
        (Outcome.SET_ASIDE, "", 1),
    ]


def test_a_message_that_cannot_be_read_is_told_by_its_topic():
    passed, incidents = opened()
    holder = NotingHolder()
    ticket = holder.ticket("m")
    ticket._item = b"no record"
    passed.note([Untaken(ticket, REASON)])
    assert [each.place for each in incidents.last] == ["t"]


class PlacedRun(MessageRun):
    """A run of a store that knows places, and marks those of queues of retries."""

    def places(self, indexes: Sequence[int]) -> DeliveryPlaces:
        return DeliveryPlaces(1 << 31, b"", 0, 0, [9])


def test_the_place_is_that_of_the_message_as_long_as_it_can_be_read():
    ticket = NotingHolder().ticket("m")
    ticket.run = PlacedRun(("handle",), 1)
    assert ticket.place == place_of_message(ticket.message)
    ticket._item = b"no record"
    assert ticket.place == f"t/{1 << 31}@9"


# -- tickets ---------------------------------------------------------------------------------------------------------


def test_open_tickets_end_together_by_their_holder():
    one, other = NotingHolder(), NotingHolder()
    tickets = [one.ticket("a"), other.ticket("b"), one.ticket("c")]
    tickets[0].release()
    assert by_consumer(tickets) == {one: [tickets[2]], other: [tickets[1]]}
    acknowledge_all(tickets)
    acknowledge_all(tickets)
    assert (one.acknowledged, other.acknowledged) == (["c"], ["b"])
    assert one.released == [("a", 0, False, "")]


def test_what_no_consumer_was_handed_goes_back_at_once_and_that_is_no_attempt():
    holder = NotingHolder()
    tickets = [holder.ticket("a"), holder.ticket("b")]
    tickets[1].acknowledge()
    give_back(tickets)
    assert holder.released == [("a", 0, True, "")]
