"""Admission: a message from any listener is checked against its topic's schema before it is stored.

The rule decides: a message that does not conform is refused in its place of the batch, or goes to another topic.

Invariant: each message keeps its place in the answer of its batch, whether it is stored or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import ROUND_ROBIN, Message
from entrepot.domain.names import is_hidden_topic, qualified, split_name
from entrepot.gateway.events.rules import DIVERT, EventRule, EventRules, does_not_conform
from entrepot.gateway.messaging.send import OnSent, Refusals, Sender

FAULT_PROPERTY: Final = "ce_schemafault"
"""Property of a diverted message: the reason why it does not conform."""
ORIGIN_PROPERTY: Final = "ce_divertedfrom"
"""Property of a diverted message: the topic it was sent to."""


class Admission:
    """An implementation of `gateway.messaging.send.Admission`."""

    def __init__(self, rules: EventRules, sender: Sender) -> None:
        self.rules, self._sender = rules, sender
        rules.on_schemas = self._attach
        self.refused = 0
        self.diverted = 0

    def _attach(self, has_schemas: bool) -> None:
        """Examine messages only while some topic has a schema."""
        self._sender.admission = self if has_schemas else None

    def examine(self, messages: Sequence[Message], on_sent: OnSent) -> tuple[Sequence[Message], OnSent]:
        """Return the messages to store, and the callback for their outcome."""
        refusals: dict[int, EntrepotError] = {}
        for place, message in enumerate(messages):
            rule = self.rules.of(message.topic)
            if rule is None or is_hidden_topic(message.topic):
                continue
            fault = rule.fault_of(message)
            if fault is None:
                continue
            if rule.record.on_invalid == DIVERT:
                self._divert(message, rule, fault)
            else:
                self.refused += 1
                refusals[place] = does_not_conform(message.topic, fault)
        if not refusals:
            return messages, on_sent
        kept = [message for place, message in enumerate(messages) if place not in refusals]

        def told(failure: EntrepotError | None, others: Refusals) -> None:
            if failure is not None:
                on_sent(failure, None)
                return
            of_kept = iter(others or [None] * len(kept))
            on_sent(None, [refusals[place] if place in refusals else next(of_kept) for place in range(len(messages))])

        return kept, told

    def _divert(self, message: Message, rule: EventRule, fault: str) -> None:
        self.diverted += 1
        origin, target = message.topic, rule.record.divert_to
        target = qualified(split_name(origin)[0], target)
        plain = split_name(target)[1]
        below = message.sub_topic.removeprefix(split_name(origin)[1]).lstrip("/")
        message.properties = (*message.properties, (ORIGIN_PROPERTY, origin), (FAULT_PROPERTY, fault))
        message.topic, message.queue_id, message.filter_hash = target, ROUND_ROBIN, 0
        message.sub_topic = f"{plain}/{below}" if below else plain
        message.further_queues = ()
