"""Deliverer: this gateway's consumer of the messages that wait for one subscription's sink.

It pops as many as there is room for, sends them, and settles them by the sink's answer. A failed try releases the event
for the time of the back-off: the store counts, schedules and dead-letters it, and any gateway may make the next try.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import is_over
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.domain.printable import printable
from entrepot.gateway.events.subscriptions.record import BATCHED, OPTIONAL, Subscription
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.access_tokens import AccessTokens, TokenError
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.delivery_request import request_of
from entrepot.gateway.events.webhooks.handshake import DENIED, GRANTED, Handshake, is_allowed
from entrepot.gateway.events.webhooks.last_answers import MAX_FAULT, LastAnswers, SinkAnswer
from entrepot.gateway.events.webhooks.sink_client import Answer, SinkClient
from entrepot.gateway.limits import TokenBucket
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.settings import WebhookSettings
from entrepot.protocols.cloudevents.webhook import Verdict, retry_after_seconds, verdict_of

WAIT_MS: Final = 60_000
PAUSE_SECONDS: Final = 0.5
PAUSE_MS: Final = 30_000
"""Pause before the next try of an event after a fault of our own, in milliseconds."""
LOOK_SECONDS: Final = 30.0
"""Interval between looks of a deliverer that may not send, in seconds; it does not rely on being told."""
TRIAL_SECONDS: Final = 1.0
"""Interval between looks for the end of another deliverer's trial of the sink, in seconds."""
MAX_REASON: Final = 200
MAX_EXCERPT: Final = 80
"""Bytes of a refusal's body that the journey of an event shows."""
STATE_TRIES: Final = 3
SHARED_SECONDS: Final = 1.0
"""Shortest Retry-After, in seconds, that is shared with the other gateways."""
RATE_DIVISOR: Final = 60.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WebhookCounters:
    """Counts of this gateway's deliveries by outcome."""

    delivered: int = 0
    failed: int = 0
    dead_letters: int = 0
    requests: int = 0


@dataclass(slots=True)
class DeliveryContext:
    """Objects shared by all deliverers of a gateway."""

    store: Store
    clock: Clock
    subscriptions: Subscriptions
    client: SinkClient
    tokens: AccessTokens
    handshake: Handshake
    settings: WebhookSettings
    slots: asyncio.Semaphore
    jitter: random.Random
    gateway: str = ""
    counters: WebhookCounters = field(default_factory=WebhookCounters)


class Deliverer:
    """The consumer of one subscription's feed; `circuit` is of its sink."""

    def __init__(self, context: DeliveryContext, subscription: Subscription, circuit: Circuit) -> None:
        self._context = context
        self.subscription = subscription
        self._circuit = circuit
        self._loop = asyncio.get_running_loop()
        consumer = consumer_at(f"webhook {subscription.id}", context.gateway)
        self._leased = LeasedConsumer(
            context.store, context.clock, subscription.feed, subscription.group, consumer=consumer
        )
        self._requests: set[asyncio.Task[None]] = set()
        self._bucket = TokenBucket(1.0, self._loop.time())
        self._news = asyncio.Event()
        self.answers = LastAnswers()
        self._task = self._loop.create_task(self._run())

    @property
    def in_flight(self) -> int:
        """Requests under way."""
        return len(self._requests)

    @property
    def is_open(self) -> bool:
        """True if the sink is left alone now."""
        return self._circuit.wait(self._loop.time()) > 0

    @property
    def circuit(self) -> tuple[str, int, float]:
        """The sink's circuit: `closed`, `open` or `trying`, failures in a row, and seconds until the next try."""
        circuit, wait = self._circuit, self._circuit.wait(self._loop.time())
        state = "trying" if circuit.is_trying else "open" if wait else "closed"
        return state, circuit.failures, wait

    def change(self, subscription: Subscription, circuit: Circuit) -> None:
        """Take a new definition or state of the subscription."""
        self.subscription, self._circuit = subscription, circuit
        self._news.set()

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Stop popping; requests under way have `grace_seconds` to end, then their events are released."""
        self._task.cancel()
        if self._requests and grace_seconds > 0:
            await asyncio.wait(tuple(self._requests), timeout=grace_seconds)
        for request in tuple(self._requests):
            request.cancel()
        await asyncio.gather(self._task, *self._requests, return_exceptions=True)
        await self._leased.close()

    # -- when ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except EntrepotError as error:
                if error.code is not Code.TOPIC_NOT_FOUND:
                    log.warning("the sink's state is not known", subscription=self.subscription.key, problem=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
            except Exception:  # a fault of our own: other deliveries and this one go on
                log.exception("a delivery failed", subscription=self.subscription.key)
                await asyncio.sleep(LOOK_SECONDS)

    async def _step(self) -> None:
        wait = await self._seconds_to_wait()
        if wait > 0:
            await self._rest(wait)
            return
        tickets = await self._pop()
        if not is_allowed(self.subscription, self._context.subscriptions.state(self.subscription)):
            self._leased.release(tickets, suspend=True)  # the definition or state changed during the pop
            return
        size = self.subscription.record.batch_size if self.subscription.record.mode == BATCHED else 1
        for start in range(0, len(tickets), size):
            self._begin(tickets[start : start + size])

    async def _rest(self, seconds: float) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, LOOK_SECONDS)):
                await self._news.wait()

    async def _seconds_to_wait(self) -> float:
        """Seconds until the next pop; 0 for now."""
        context, subscription = self._context, self.subscription
        due_ms = context.handshake.wait_ms(subscription)
        if due_ms == 0:
            await context.handshake.ask(subscription)
        state = context.subscriptions.state(subscription)
        if not is_allowed(subscription, state):
            return LOOK_SECONDS if due_ms is None else max(due_ms / 1000, PAUSE_SECONDS)
        now = self._loop.time()
        if self._room() <= 0:
            return LOOK_SECONDS
        if self._circuit.is_trying:
            return TRIAL_SECONDS
        wait = self._sink_wait()
        if wait > 0:
            return wait
        rate = self._rate()
        if rate and not self._bucket.take(rate, now):
            return 1 / rate
        return 0.0

    def _sink_wait(self) -> float:
        """Seconds to leave the sink alone: by this gateway's circuit, and by its Retry-After to any gateway."""
        quiet_until_ms = self._context.subscriptions.state(self.subscription).quiet_until_ms
        quiet_ms = quiet_until_ms - self._context.clock.now_ms()
        return max(self._circuit.wait(self._loop.time()), quiet_ms / 1000)

    def _rate(self) -> float:
        """Requests per second; 0 for any number."""
        record, state = self.subscription.record, self._context.subscriptions.state(self.subscription)
        rates = [record.rate_per_minute]
        if state.consent == GRANTED:
            rates.append(state.allowed_rate)
        elif state.consent == DENIED and record.handshake == OPTIONAL:
            rates.append(self._context.settings.unconfirmed_rate_per_minute)
        rates = [rate for rate in rates if rate]
        return min(rates) / RATE_DIVISOR if rates else 0.0

    def _room(self) -> int:
        return self._context.settings.max_requests_per_subscription - len(self._requests)

    async def _pop(self) -> list[Ticket]:
        """Pop as many as there is room for; the events of one request under a rate limit or in order. A larger ordered
        pop would hold several events of one key, which have to be sent one after the other."""
        record = self.subscription.record
        requests = 1 if self._rate() or record.is_ordered or not self._circuit.is_well else self._room()
        size = record.batch_size if record.mode == BATCHED else 1
        most = min(requests * size, MAX_POP_MESSAGES)
        return await self._leased.pop(PopRequest(self._leased.topic, self._leased.group, most, WAIT_MS))

    # -- one request ---------------------------------------------------------------------------------------------

    def _begin(self, tickets: list[Ticket]) -> None:
        request = self._loop.create_task(self._deliver(tickets, self.subscription, self._circuit))
        self._requests.add(request)
        request.add_done_callback(self._ended)

    def _ended(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        if not request.cancelled() and (error := request.exception()) is not None:
            log.error("a delivery failed", subscription=self.subscription.key, exc_info=error)
        self._news.set()

    async def _deliver(self, tickets: list[Ticket], asked: Subscription, circuit: Circuit) -> None:
        """Send and settle; `asked` and `circuit` are those of the start: the sink may change until the answer."""
        try:
            async with self._context.slots:
                self._bury_old(tickets)
                tickets = [ticket for ticket in tickets if ticket.is_open]
                if not tickets:
                    return
                wait = self._sink_wait()
                if wait > 0 or self._is_elsewhere(asked) or not circuit.enter(self._loop.time()):
                    self._leased.release(tickets, round(wait * 1000), suspend=True)
                    return
                began = self._loop.time()
                try:
                    answer, authorization = await self._send(tickets, asked)
                except BaseException:
                    circuit.left()
                    raise
            try:
                await self._settle(tickets, answer, authorization, asked, circuit, self._loop.time() - began)
            except Exception:
                circuit.left()
                raise
        except asyncio.CancelledError:
            self._leased.release(tickets)
            raise
        except Exception:
            self._leased.release(tickets, PAUSE_MS)
            raise

    def _is_elsewhere(self, asked: Subscription) -> bool:
        """True if the subscription has another sink by now."""
        return self.subscription.record.sink != asked.record.sink

    async def _send(self, tickets: Sequence[Ticket], subscription: Subscription) -> tuple[Answer, str | None]:
        """Return the sink's answer, and the Authorization value that it was shown."""
        context = self._context
        context.counters.requests += 1
        try:
            authorization = await context.tokens.authorization(subscription)
        except TokenError as error:
            return Answer(0, fault=str(error), is_sinks=False), None
        now_ms = context.clock.now_ms()
        made = request_of(subscription, tickets, context.settings.origin, authorization, now_ms)
        record = subscription.record
        answer = await context.client.request(made.method, record.sink, made.headers, made.body, record.timeout_seconds)
        return answer, authorization

    def _bury_old(self, tickets: Sequence[Ticket]) -> None:
        now_ms = self._context.clock.now_ms()
        lifetime_ms = self.subscription.record.max_age_seconds * 1000 or None
        self._bury([each for each in tickets if is_over(each.message, now_ms, lifetime_ms)], "expired")

    # -- what the sink said --------------------------------------------------------------------------------------

    async def _settle(
        self,
        tickets: list[Ticket],
        answer: Answer,
        authorization: str | None,
        asked: Subscription,
        circuit: Circuit,
        took_seconds: float,
    ) -> None:
        context, now = self._context, self._loop.time()
        verdict = verdict_of(answer.status) if answer.status else Verdict.RETRY
        if answer.status == 401 and context.tokens.forget(asked, authorization):
            verdict = Verdict.RETRY  # with a new token
        self._note(tickets, answer, verdict, took_seconds)
        if verdict is Verdict.DELIVERED:
            circuit.succeeded()
            context.counters.delivered += len(tickets)
            self._leased.acknowledge(tickets)
            return
        context.counters.failed += len(tickets)
        why = _words(answer)
        if verdict is Verdict.RETRY and not answer.is_forbidden:
            await self._retry(tickets, answer, why, now, circuit)
            return
        circuit.left()
        if self._is_elsewhere(asked):
            self._leased.release(tickets)  # the new sink may answer otherwise
            return
        if verdict is Verdict.GONE:
            await self._suspend(why, asked)
        self._bury(tickets, why)

    def _note(self, tickets: Sequence[Ticket], answer: Answer, verdict: Verdict, took_seconds: float) -> None:
        """Keep the answer for operators."""
        outcome = Verdict.REFUSED if answer.is_forbidden else verdict
        self.answers.add(
            SinkAnswer(
                self._context.clock.now_ms(),
                round(took_seconds * 1000),
                answer.status,
                answer.fault[:MAX_FAULT],
                outcome.value,
                len(tickets),
                max(each.attempt for each in tickets),
            )
        )

    async def _retry(self, tickets: list[Ticket], answer: Answer, why: str, now: float, circuit: Circuit) -> None:
        record, context = self.subscription.record, self._context
        after = retry_after_seconds(answer.headers.get("retry-after"), context.clock.now_ms() / 1000)
        if answer.status in (429, 503) and after is not None:
            circuit.left()
            circuit.pause_until(now + after)
            if after >= SHARED_SECONDS:
                await self._tell_others(after)
        elif not answer.is_sinks:
            circuit.left()
        elif circuit.failed(now):
            log.warning("a sink is left alone for a while", subscription=self.subscription.key, problem=why)
        last = [each for each in tickets if each.attempt >= record.max_attempts]
        self._bury(last, f"{why}, after {record.max_attempts} attempts")
        by_delay: dict[int, list[Ticket]] = {}
        for each in tickets:
            if each.attempt < record.max_attempts:
                by_delay.setdefault(self._delay_ms(each.attempt, after), []).append(each)
        for delay_ms, some in by_delay.items():
            said = f"{why}{_excerpt(answer)}, next try after {delay_ms / 1000:.1f} s"
            self._leased.release(some, delay_ms, reason=said)
        if by_delay:
            self.answers.retry_at_ms = context.clock.now_ms() + min(by_delay)

    def _delay_ms(self, attempt: int, asked_seconds: float | None) -> int:
        """Exponential back-off with equal jitter (half to whole), but no less than the sink asked for."""
        record = self.subscription.record
        longest = min(record.initial_backoff_ms << min(attempt - 1, 40), record.max_backoff_ms)
        delay_ms = longest / 2 + self._context.jitter.random() * longest / 2
        return round(max(delay_ms, (asked_seconds or 0) * 1000))

    async def _tell_others(self, asked_seconds: float) -> None:
        """Pause the sink for the other gateways, and for this one after a restart."""
        until_ms = self._context.clock.now_ms() + round(asked_seconds * 1000)
        subscriptions = self._context.subscriptions
        for _ in range(STATE_TRIES):
            state = subscriptions.state(self.subscription)
            if until_ms - state.quiet_until_ms < SHARED_SECONDS * 1000:
                return  # known already, nearly
            if await subscriptions.put_state(
                self.subscription, msgspec.structs.replace(state, quiet_until_ms=until_ms)
            ):
                return

    def _bury(self, tickets: Sequence[Ticket], why: str) -> None:
        self._context.counters.dead_letters += len(tickets)
        self._leased.reject(tickets, why[:MAX_REASON])

    async def _suspend(self, why: str, asked: Subscription) -> None:
        """Suspend the subscription until its owner changes it: the receiver is gone."""
        subscriptions = self._context.subscriptions
        for _ in range(STATE_TRIES):
            state = msgspec.structs.replace(subscriptions.state(asked), suspended=why)
            if await subscriptions.put_state(asked, state):
                log.warning("a receiver is gone", subscription=self.subscription.key)
                return


def _excerpt(answer: Answer) -> str:
    """The beginning of a sink's refusal, for people."""
    text = printable(answer.body[:MAX_EXCERPT].decode("utf-8", "replace")).strip()
    return f" ({text})" if text else ""


def _words(answer: Answer) -> str:
    return f"HTTP {answer.status}" if answer.status else answer.fault
