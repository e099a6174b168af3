"""This gateway's deliveries to the sinks of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
    from entrepot.gateway.events.webhooks.deliverer import Deliverer
    from entrepot.gateway.events.webhooks.last_answers import SinkAnswer
    from entrepot.gateway.events.webhooks.webhooks import Webhooks
    from entrepot.gateway.peers.peers import Peers

DELIVERIES: Final = "webhook-deliveries"
"""View of every gateway: its deliveries to some subscriptions, by their key."""


def serve_deliveries(peers: Peers, subscriptions: Subscriptions, webhooks: Webhooks) -> None:
    """Register the view."""

    async def deliveries(asked: dict[str, Any]) -> Any:
        shown = {}
        for key in asked["keys"]:
            subscription = subscriptions.of_key(key)
            deliverer = None if subscription is None else webhooks.deliverer(subscription)
            if deliverer is not None:
                shown[key] = _delivery_shape(deliverer, asked["most"])
        return shown

    peers.serve(DELIVERIES, deliveries)


def _delivery_shape(deliverer: Deliverer, most: int) -> dict[str, Any]:
    state, failures, wait = deliverer.circuit
    return {
        "requests": deliverer.in_flight,
        "circuit": {"state": state, "failures": failures, "openSeconds": round(wait, 3)},
        "retryAt": time_shape(deliverer.answers.retry_at_ms),
        "answers": [_answer_shape(each) for each, _ in zip(deliverer.answers, range(most), strict=False)],
    }


def _answer_shape(answer: SinkAnswer) -> dict[str, Any]:
    return {
        "time": time_shape(answer.at_ms),
        "status": answer.status or None,
        "fault": answer.fault or None,
        "outcome": answer.outcome,
        "durationMs": answer.duration_ms,
        "events": answer.events,
        "attempt": answer.attempt,
    }
