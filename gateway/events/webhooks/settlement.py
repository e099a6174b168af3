"""Settlement: what becomes of the events of one request, by what the sink said.

A failed try releases the event for the time of the back-off: the store counts, schedules and dead-letters it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from entrepot.domain.printable import printable
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.delivery_context import DeliveryContext
from entrepot.gateway.events.webhooks.last_answers import MAX_FAULT, LastAnswers, SinkAnswer
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.cloudevents.webhook import Verdict, retry_after_seconds, verdict_of

MAX_REASON: Final = 200
MAX_EXCERPT: Final = 80
"""Bytes of a refusal's body that the journey of an event shows."""
STATE_TRIES: Final = 3
SHARED_SECONDS: Final = 1.0
"""Shortest Retry-After, in seconds, that is shared with the other gateways."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it was made: the sink may have changed since. `at`: its end, in seconds of the circuit's clock.
    `authorization`: the value that the sink was shown."""

    subscription: Subscription
    circuit: Circuit
    authorization: str | None
    at: float
    took_seconds: float


class Settlement:
    """The settlement of one subscription's requests; `subscription` is the present definition."""

    def __init__(self, context: DeliveryContext, leased: LeasedConsumer, subscription: Subscription) -> None:
        self._context, self._leased = context, leased
        self.subscription = subscription
        self.answers = LastAnswers()

    def is_elsewhere(self, asked: Subscription) -> bool:
        """True if the subscription has another sink by now."""
        return self.subscription.record.sink != asked.record.sink

    async def settle(self, tickets: list[Ticket], answer: Answer, asked: Asked) -> None:
        """Acknowledge, retry or bury. Raises the store's refusals."""
        context, circuit = self._context, asked.circuit
        verdict = verdict_of(answer.status) if answer.status else Verdict.RETRY
        if answer.status == 401 and context.tokens.forget(asked.subscription, asked.authorization):
            verdict = Verdict.RETRY  # with a new token
        self._note(tickets, answer, verdict, asked.took_seconds)
        if verdict is Verdict.DELIVERED:
            circuit.succeeded()
            context.counters.delivered += len(tickets)
            self._leased.acknowledge(tickets)
            return
        context.counters.failed += len(tickets)
        why = _words(answer)
        if verdict is Verdict.RETRY and not answer.is_forbidden:
            await self._retry(tickets, answer, why, asked)
            return
        circuit.left()
        if self.is_elsewhere(asked.subscription):
            self._leased.release(tickets)  # the new sink may answer otherwise
            return
        if verdict is Verdict.GONE:
            await self._suspend(why, asked.subscription)
        self.bury(tickets, why)

    def bury(self, tickets: Sequence[Ticket], why: str) -> None:
        """Make dead letters of events."""
        self._context.counters.dead_letters += len(tickets)
        self._leased.reject(tickets, why[:MAX_REASON])

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

    async def _retry(self, tickets: list[Ticket], answer: Answer, why: str, asked: Asked) -> None:
        record, context, circuit = self.subscription.record, self._context, asked.circuit
        after = retry_after_seconds(answer.headers.get("retry-after"), context.clock.now_ms() / 1000)
        if answer.status in (429, 503) and after is not None:
            circuit.left()
            circuit.pause_until(asked.at + after)
            if after >= SHARED_SECONDS:
                await self._tell_others(after)
        elif not answer.is_sinks:
            circuit.left()
        elif circuit.failed(asked.at):
            log.warning("a sink is left alone for a while", subscription=self.subscription.key, problem=why)
        last = [each for each in tickets if each.attempt >= record.max_attempts]
        self.bury(last, f"{why}, after {record.max_attempts} attempts")
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
