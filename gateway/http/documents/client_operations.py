"""Operations on others that all gateways look after: webhooks, bridges, Spark jobs."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.http.documents.event_operations import SUBSCRIPTION_FIELDS
from entrepot.gateway.http.documents.operation import Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape, listed, named, of_shown, time
from entrepot.gateway.operations.gathered import AnsweredShown
from entrepot.gateway.operations.operation import PREFIX

ANSWERED: Final = of_shown(AnsweredShown)
_GATEWAY: Final = "gateway-1"


def _of_all(sample: Any, **more: Any) -> Shape:
    """A list over all gateways; each row has its gateway."""
    return listed(sample, **more, answered=ANSWERED)


_DELIVERY: Final = {
    "gateway": _GATEWAY,
    "requests": 1,
    "circuit": {"state": Choice(("closed", "open", "trying")), "failures": 0, "openSeconds": 0.0},
    "retryAt": Maybe(time()),
    "answers": [
        {
            "time": Maybe(time()),
            "status": Maybe(503),
            "fault": Maybe("no answer in time"),
            "outcome": Choice(("delivered", "retry", "gone", "refused")),
            "durationMs": 21,
            "events": 1,
            "attempt": 2,
        }
    ],
}
_WEBHOOK_FIELDS: Final = {
    **SUBSCRIPTION_FIELDS,
    "namespace": "default",
    "topic": "factory",
    "handshake": {"tries": 1, "askedAt": Maybe(time()), "nextAt": Maybe(time())},
    "quietUntil": Maybe(time()),
    "waiting": Maybe(12),
    "waitingLimit": Maybe(100_000),
    "inFlight": Maybe(1),
    "undispatched": Maybe(0),
    "retryDelaysSeconds": [1.0],
    "deliveries": [_DELIVERY],
}
_WEBHOOK: Final = named("Webhook", "A subscription with its delivery at all gateways", _WEBHOOK_FIELDS)

CLIENT_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/webhooks"): Operation(
        "listWebhooks", answers(_of_all(_WEBHOOK, next=Maybe("3f2a9c01d4e5b677")))
    ),
    ("GET", f"{PREFIX}/webhooks/{{id}}"): Operation("getWebhook", answers({**_WEBHOOK_FIELDS, "answered": ANSWERED})),
}
