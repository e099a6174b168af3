"""Deliverer: this gateway's consumer of the messages that wait for one subscription's sink.

It pops as many as there is room for, sends them, and has them settled by the sink's answer (`settlement.py`). Any
gateway may make the next try. An event that no request can be made of is set aside; the others of its request are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import is_over
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.gateway.events.subscriptions.record import BATCHED, OPTIONAL, Subscription
from entrepot.gateway.events.webhooks.access_tokens import TokenError
from entrepot.gateway.events.webhooks.backlog import Backlog
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.delivery_context import PART, DeliveryContext
from entrepot.gateway.events.webhooks.delivery_request import DeliveryRequest, request_of
from entrepot.gateway.events.webhooks.handshake import DENIED, GRANTED, is_allowed
from entrepot.gateway.events.webhooks.last_answers import LastAnswers
from entrepot.gateway.events.webhooks.settlement import Asked, Settlement
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.transport.limits import TokenBucket

WAIT_MS: Final = 60_000
PAUSE_SECONDS: Final = 0.5
PAUSE_MS: Final = 30_000
"""Pause before the next try of an event after a fault of our own, in milliseconds."""
LOOK_SECONDS: Final = 30.0
"""Interval between looks of a deliverer that may not send, in seconds; it does not rely on being told."""
TRIAL_SECONDS: Final = 1.0
"""Interval between looks for the end of another deliverer's trial of the sink, in seconds."""
RATE_DIVISOR: Final = 60.0

log = structlog.get_logger(__name__)


class Deliverer:
    """The consumer of one subscription's feed; `circuit` is of its sink."""

    def __init__(self, context: DeliveryContext, subscription: Subscription, circuit: Circuit) -> None:
        self._context = context
        self._circuit = circuit
        self._loop = asyncio.get_running_loop()
        consumer = consumer_at(f"webhook {subscription.id}", context.gateway)
        self._leased = LeasedConsumer(
            context.store, context.clock, subscription.feed, subscription.group, consumer=consumer
        )
        self._settlement = Settlement(context, self._leased, subscription)
        self._backlog = Backlog(context, self._leased, lambda: not self._is_allowed)
        self._requests: set[asyncio.Task[None]] = set()
        self._bucket = TokenBucket(1.0, self._loop.time())
        self._news = asyncio.Event()
        self._task = background().keep("webhook deliveries", self._run)

    @property
    def subscription(self) -> Subscription:
        """The present definition."""
        return self._settlement.subscription

    @property
    def answers(self) -> LastAnswers:
        return self._settlement.answers

    @property
    def _is_allowed(self) -> bool:
        """True if events may be sent now."""
        return is_allowed(self.subscription, self._context.subscriptions.state(self.subscription))

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
        self._settlement.subscription, self._circuit = subscription, circuit
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
            except Exception as fault:  # noqa: BLE001 - a fault of our own: other deliveries and this one go on
                background().failed("webhook deliveries", fault)
                await asyncio.sleep(LOOK_SECONDS)

    async def _step(self) -> None:
        self._news.clear()  # before the look: what changes while it waits for the store is news, too
        wait = await self._seconds_to_wait()
        if wait > 0:
            await self._rest(wait)
            return
        tickets = await self._pop()
        if not self._is_allowed:
            self._leased.release(tickets, suspend=True)  # the definition or state changed during the pop
            return
        size = self.subscription.record.batch_size if self.subscription.record.mode == BATCHED else 1
        for start in range(0, len(tickets), size):
            self._begin(tickets[start : start + size])

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, LOOK_SECONDS)):
                await self._news.wait()

    async def _seconds_to_wait(self) -> float:
        """Seconds until the next pop; 0 for now."""
        context, subscription = self._context, self.subscription
        due_ms = context.handshake.wait_ms(subscription)
        if due_ms == 0:
            await context.handshake.ask(subscription)
        if not self._is_allowed:
            await self._backlog.keep_to_limit(subscription)
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
        request = background().start("webhook requests", self._deliver(tickets, self.subscription, self._circuit))
        self._requests.add(request)
        request.add_done_callback(self._ended)

    def _ended(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        self._news.set()

    async def _deliver(self, tickets: list[Ticket], asked: Subscription, circuit: Circuit) -> None:
        """Send and settle; `asked` and `circuit` are those of the start: the sink may change until the answer."""
        try:
            async with self._context.slots:
                tickets = self._live(tickets)
                if not tickets:
                    return
                wait = self._sink_wait()
                if wait > 0 or self._settlement.is_elsewhere(asked) or not circuit.enter(self._loop.time()):
                    self._leased.release(tickets, round(wait * 1000), suspend=True)
                    return
                try:
                    sent = await self._send(tickets, asked, circuit)
                except BaseException:
                    circuit.left()
                    raise
            if sent is None:
                circuit.left()
                return
            try:
                await self._settlement.settle(*sent)
            except Exception:
                circuit.left()
                raise
        except asyncio.CancelledError:
            self._leased.release(tickets)
            raise
        except Exception:
            self._leased.release(tickets, PAUSE_MS)
            raise

    async def _send(
        self, tickets: list[Ticket], subscription: Subscription, circuit: Circuit
    ) -> tuple[list[Ticket], Answer, Asked] | None:
        """Return the events that were sent, the sink's answer and what was asked; None if nothing could be sent."""
        context, began = self._context, self._loop.time()
        context.counters.requests += 1
        authorization: str | None = None
        try:
            authorization = await context.tokens.authorization(subscription)
        except TokenError as error:
            answer = Answer(0, fault=str(error), is_sinks=False)
        else:
            tickets, made = self._made(tickets, subscription, authorization)
            if made is None:
                return None
            record = subscription.record
            answer = await context.client.request(
                made.method, record.sink, made.headers, made.body, record.timeout_seconds, subscription.sink_tls
            )
        now = self._loop.time()
        return tickets, answer, Asked(subscription, circuit, authorization, now, now - began)

    def _made(
        self, tickets: list[Ticket], subscription: Subscription, authorization: str | None
    ) -> tuple[list[Ticket], DeliveryRequest | None]:
        """Return the request and its events. Where it cannot be made, each event is tried alone, and the odd ones are
        set aside."""
        origin, now_ms = self._context.settings.origin, self._context.clock.now_ms()
        try:
            return tickets, request_of(subscription, tickets, origin, authorization, now_ms)
        except Exception:  # noqa: BLE001 - that of the odd ones is noted below
            pass
        sound: list[Ticket] = []
        for each in tickets:
            try:
                request_of(subscription, [each], origin, authorization, now_ms)
                sound.append(each)
            except Exception as fault:  # noqa: BLE001 - noted with its trace
                self._set_aside(each, fault)
        return sound, request_of(subscription, sound, origin, authorization, now_ms) if sound else None

    def _live(self, tickets: list[Ticket]) -> list[Ticket]:
        """Return the events to send; those that are too old become dead letters."""
        now_ms = self._context.clock.now_ms()
        lifetime_ms = self.subscription.record.max_age_seconds * 1000 or None
        live: list[Ticket] = []
        old: list[Ticket] = []
        for each in tickets:
            try:
                (old if is_over(each.message, now_ms, lifetime_ms) else live).append(each)
            except Exception as fault:  # noqa: BLE001 - noted with its trace
                self._set_aside(each, fault)
        self._settlement.bury(old, "expired")
        return [each for each in live if each.is_open]

    def _set_aside(self, ticket: Ticket, fault: Exception) -> None:
        self._context.counters.dead_letters += 1
        set_aside(self._context.incidents, PART, ticket, fault)
