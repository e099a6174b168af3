"""What becomes of events by what their sink says: acknowledged, tried again after the right time, or a dead letter."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.events.subscriptions.record import Credential
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.settings import WebhookSettings
from tests.support.cases import cases
from tests.unit.webhooks.world import bodies_of, world

INVISIBLE_MS = 61_000
"""More than the lease of a delivery."""
DAY_MS = 86_400_000


# -- accepted ----------------------------------------------------------------------------------------------------------


@cases("status", [200, 201, 202, 204, 226, 299])
async def test_accepted_events_are_acknowledged_and_never_come_again(status: int) -> None:
    async with world() as made:
        await made.feed("a", "b", "c")
        tickets = await made.take(2)
        made.circuit.failed(0.0)
        await made.settle(tickets, Answer(status, {"retry-after": "60"}))
        assert (await made.waiting(), made.circuit.failures) == (1, 0)
        made.clock.advance(INVISIBLE_MS)
        assert bodies_of(await made.take()) == ["c"]
        assert await made.dead_letters() == [] and made.state.quiet_until_ms == 0
        counters = made.context.counters
        assert (counters.delivered, counters.failed, counters.dead_letters) == (2, 0, 0)


# -- tried again -------------------------------------------------------------------------------------------------------


@cases("status", [0, 301, 404, 408, 409, 425, 429, 500, 502, 503, 504, 599])
async def test_failed_events_wait_for_their_back_off(status: int) -> None:
    async with world(initial_backoff_ms=1000) as made:
        made.jitter.share = 0.5
        await made.feed("a")
        await made.settle(await made.take(), Answer(status, fault="" if status else "no answer within 30 s"))
        assert made.settlement.answers.retry_at_ms == made.clock.now_ms() + 750
        made.clock.advance(749)
        assert await made.take() == []
        made.clock.advance(1)
        [again] = await made.take()
        assert (again.attempt, again.message.body) == (2, b"a")
        assert (made.context.counters.failed, made.circuit.failures) == (1, 1)
        assert await made.dead_letters() == []


@cases(
    "attempt, share, delay_ms",
    [
        (1, 0.0, 500), (1, 0.999, 1000), (2, 0.0, 1000), (2, 0.999, 1999), (3, 0.0, 2000), (4, 0.5, 6000),
        (7, 0.0, 10_000), (7, 0.999, 19_990), (60, 0.5, 15_000),
    ],
)  # fmt: skip
async def test_the_back_off_doubles_up_to_its_limit_and_half_of_it_is_random(
    attempt: int, share: float, delay_ms: int
) -> None:
    async with world(initial_backoff_ms=1000, max_backoff_ms=20_000, max_attempts=1000) as made:
        made.jitter.share = share
        await made.feed("a")
        for _ in range(attempt - 1):
            made.leased.release(await made.take())
            await made.leased.settle()
        [ticket] = await made.take()
        assert ticket.attempt == attempt
        await made.settle([ticket], Answer(500))
        waits_ms = made.settlement.answers.retry_at_ms - made.clock.now_ms()
        assert abs(waits_ms - delay_ms) <= 1, waits_ms


@cases(
    "status, told, waits_ms, pauses_ms",
    [
        (429, "30", 30_000, 30_000),
        (503, "30", 30_000, 30_000),
        (500, "30", 30_000, 0),
        (404, "30", 30_000, 0),
        (503, "0", 1000, 0),
        (503, "1", 1000, 1000),
        (503, "soon", 1000, 0),
        (429, None, 1000, 0),
        (503, "999999999", DAY_MS, DAY_MS),
        (429, "Tue, 14 Nov 2023 22:13:50 GMT", 30_000, 30_000),
        (429, "Mon, 13 Nov 2023 22:13:50 GMT", 1000, 0),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", DAY_MS, DAY_MS),
    ],
)
async def test_retry_after_delays_the_event_and_of_a_busy_sink_everything(
    status: int, told: str | None, waits_ms: int, pauses_ms: int
) -> None:
    async with world(initial_backoff_ms=1000) as made:  # its clock begins at 2023-11-14T22:13:20Z
        made.jitter.share = 1.0
        await made.feed("a")
        now_ms = made.clock.now_ms()
        await made.settle(await made.take(), Answer(status, {} if told is None else {"retry-after": told}), at=5.0)
        assert made.settlement.answers.retry_at_ms - now_ms == waits_ms
        assert made.circuit.wait(5.0) * 1000 == pauses_ms
        assert made.state.quiet_until_ms == (now_ms + pauses_ms if pauses_ms else 0)
        is_asked = status in (429, 503) and told not in (None, "soon")
        assert made.circuit.failures == (0 if is_asked else 1), "a sink that tells its pause has not failed"


async def test_a_pause_that_others_know_is_not_written_again() -> None:
    async with world() as made:
        await made.put_state(quiet_until_ms=made.clock.now_ms() + 30_000, consent="granted")
        await made.feed("a", "b")
        one, two = await made.take()
        await made.settle([one], Answer(503, {"retry-after": "30"}))
        assert made.state.quiet_until_ms == made.clock.now_ms() + 30_000
        await made.settle([two], Answer(503, {"retry-after": "60"}))
        assert made.state.quiet_until_ms == made.clock.now_ms() + 60_000
        assert made.state.consent == "granted", "the rest of the state stays"


async def test_events_of_one_request_wait_by_their_own_attempts() -> None:
    async with world(initial_backoff_ms=1000) as made:
        made.jitter.share = 1.0
        await made.feed("a")
        made.leased.release(await made.take())
        await made.leased.settle()
        await made.feed("b")
        tickets = await made.take()
        assert sorted((each.message.body, each.attempt) for each in tickets) == [(b"a", 2), (b"b", 1)]
        await made.settle(tickets, Answer(500))
        made.clock.advance(1000)
        assert bodies_of(await made.take()) == ["b"]
        made.clock.advance(1000)
        assert bodies_of(await made.take()) == ["a"]


# -- given up ----------------------------------------------------------------------------------------------------------


@cases("attempts", [1, 3])
async def test_after_its_last_attempt_it_is_a_dead_letter_with_the_reason(attempts: int) -> None:
    async with world(max_attempts=attempts, initial_backoff_ms=1000) as made:
        await made.feed("a")
        for number in range(attempts):
            assert await made.dead_letters() == []
            [ticket] = await made.take()
            assert ticket.attempt == number + 1
            await made.settle([ticket], Answer(502, body=b"not now"))
            made.clock.advance(10_000)
        assert await made.dead_letters() == [("a", f"HTTP 502, after {attempts} attempts")]
        assert (await made.take(), made.context.counters.dead_letters) == ([], 1)


@cases("status", [400, 401, 403, 405, 406, 411, 413, 414, 415, 422, 431, 501, 505])
async def test_refused_events_are_dead_letters_at_once(status: int) -> None:
    async with world() as made:
        await made.feed("a", "b")
        made.circuit.failed(0.0)
        await made.settle(await made.take(1), Answer(status))
        assert await made.dead_letters() == [("a", f"HTTP {status}")]
        assert bodies_of(await made.take()) == ["b"]
        assert made.circuit.failures == 1 and not made.state.suspended


async def test_a_forbidden_address_makes_a_dead_letter() -> None:
    async with world() as made:
        await made.feed("a")
        await made.settle(await made.take(), Answer(0, fault="10.0.0.1 is not allowed", is_forbidden=True))
        assert await made.dead_letters() == [("a", "10.0.0.1 is not allowed")]
        [answer] = made.settlement.answers
        assert (answer.outcome, answer.fault, answer.duration_ms) == ("refused", "10.0.0.1 is not allowed", 250)


async def test_who_is_gone_is_suspended() -> None:
    async with world() as made:
        await made.put_state(consent="granted")
        await made.feed("a", "b")
        await made.settle(await made.take(1), Answer(410))
        assert (made.state.suspended, made.state.consent) == ("HTTP 410", "granted")
        assert (await made.dead_letters(), await made.waiting()) == ([("a", "HTTP 410")], 1)


@cases("status", [410, 415])
async def test_what_an_earlier_sink_refuses_the_present_one_gets(status: int) -> None:
    async with world() as made:
        await made.feed("a")
        tickets, before = await made.take(), made.subscriptions.of_key(made.subscription.key)
        assert before is not None
        record = msgspec.structs.replace(before.record, sink="https://other.example/")
        made.settlement.subscription = await made.subscriptions.update(before, record)
        await made.settle(tickets, Answer(status))
        assert bodies_of(await made.take()) == ["a"]
        assert await made.dead_letters() == [] and not made.state.suspended


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_that_cannot_be_got_is_no_fault_of_the_sink() -> None:
    async with world(WebhookSettings(circuit_failures=1)) as made:
        await made.feed("a")
        await made.settle(await made.take(), Answer(0, fault="no token", is_sinks=False))
        assert made.circuit.is_well and made.circuit.failures == 0
        assert await made.waiting() == 1


async def test_after_401_a_new_token_is_tried() -> None:
    credential = Credential("OAUTH2", identifier="i", secret="s", tokenendpoint="https://token.example/")
    async with world(credential=credential, max_attempts=2) as made:
        made.sink.told = [Answer(200, body=b'{"access_token": "%s"}' % token) for token in (b"one", b"two")]
        for shown, dead in (("Bearer one", []), ("Bearer two", [("a", "HTTP 401, after 2 attempts")])):
            assert await made.context.tokens.authorization(made.subscription) == shown
            if not dead:
                await made.feed("a")
            await made.settle(await made.take(), Answer(401), authorization=shown)
            assert await made.dead_letters() == dead
            made.clock.advance(600_000)


# -- all of it ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0, 200, 204, 302, 400, 410, 429, 500, 503]), min_size=1, max_size=12), st.randoms())
async def test_whatever_is_answered_each_event_is_delivered_or_a_dead_letter(statuses: list[int], rng: Random) -> None:
    async with world(max_attempts=3, initial_backoff_ms=10, max_backoff_ms=20) as made:
        names = [f"e{number}" for number in range(len(statuses))]
        await made.feed(*names)
        accepted: list[str] = []
        for _ in range(len(names) * 3):
            if not (tickets := await made.take(rng.randint(1, 4))):
                made.clock.advance(20)
                continue
            status = rng.choice(statuses)
            if 200 <= status < 300:
                accepted += bodies_of(tickets)
            await made.settle(tickets, Answer(status, fault="" if status else "none"))
        while tickets := [*await made.take(), *(made.clock.advance(20) or await made.take())]:
            accepted += bodies_of(tickets)
            await made.settle(tickets, Answer(200))
        dead = [body for body, _ in await made.dead_letters()]
        assert sorted(accepted + dead) == sorted(names), (accepted, dead)
        assert (len(accepted), len(dead)) == (made.context.counters.delivered, made.context.counters.dead_letters)
