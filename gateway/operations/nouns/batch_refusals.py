"""Batches with refused events: refused as a whole where known in advance, else the answer names the refused ones."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.acceptance import refusals_ahead
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.events.rules import EventRule
from entrepot.gateway.messaging.send import Refusals
from entrepot.protocols.cloudevents.batch import events_at


def check_batch(
    messages: Sequence[Message], topic: Topic, rule: EventRule | None, max_message_bytes: int, now_ms: int
) -> None:
    """Raise if the topic's definition or rule refuses any message, so that nothing of the batch is stored."""
    refusals = refusals_ahead(messages, topic, max_message_bytes, now_ms)
    if rule is not None and rule.has_schema:
        for place, message in enumerate(messages):
            refusal = rule.refusal_of(message, topic.name)
            if refusal is not None:
                refusals.setdefault(place, refusal)
    if refusals:
        raise refusal_of([refusals.get(place) for place in range(len(messages))], "nothing of it is stored")


def refusal_of(refusals: Refusals, others: str = "the others are stored") -> EntrepotError:
    """Return the error for partly refused messages: the first refusal, with the places of all.  `others`: the outcome
    of the accepted messages."""
    refused = [index for index, refusal in enumerate(refusals or ()) if refusal is not None]
    count = len(refusals or ())
    first = (refusals or ())[refused[0]]
    assert first is not None
    if count == 1:
        return first
    if len(refused) == count:
        return EntrepotError(first.code, f"all {count} events of the batch were refused, the first: {first.message}")
    were = "was" if len(refused) == 1 else "were"
    return EntrepotError(
        first.code,
        f"{events_at(refused)} (counted from 0) {were} refused: {first.message}; "
        f"{len(refused)} of {count} were refused, {others}",
    )
