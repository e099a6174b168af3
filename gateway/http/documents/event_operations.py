"""Operations on events: pull delivery as in Event Grid's API."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.documents.operation import Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Shape, named, of_shown
from entrepot.gateway.http.receive import SUBSCRIPTION_PATH
from entrepot.gateway.operations.event_schema import EVENT, EVENT_SCHEMA
from entrepot.gateway.operations.refusals import RefusalShown

TOKEN: Final = "AQAtMDE5QUYyQzRBNDhEMTU0OUJBNEYxRkMx"
CLOUD_EVENT: Final = Shape({"$ref": "#/components/schemas/CloudEvent"}, EVENT, {"CloudEvent": EVENT_SCHEMA})
REFUSAL: Final = of_shown(RefusalShown)
_RECEIVED: Final = named(
    "ReceiveResult",
    "Events that are locked for the group",
    {"value": [{"brokerProperties": {"lockToken": TOKEN, "deliveryCount": 1}, "event": CLOUD_EVENT}]},
)
_SETTLED: Final = named(
    "SettleResult",
    "The outcome for each lock token",
    {"succeededLockTokens": [TOKEN], "failedLockTokens": [{"lockToken": TOKEN, "error": REFUSAL}]},
)
_TOKENS: Final = {"lockTokens": [TOKEN]}


def _settling(verb: str, name: str) -> dict[tuple[str, str], Operation]:
    of = Operation(name, answers(_SETTLED, "The outcome for each lock token, which is durable"), example=_TOKENS)
    return {("POST", f"{SUBSCRIPTION_PATH}:{verb}"): of}


EVENT_OPERATIONS: Final[Operations] = {
    ("POST", f"{SUBSCRIPTION_PATH}:receive"): Operation(
        "receiveCloudEvents", answers(_RECEIVED, "The events, or none when the time was over")
    ),
    **_settling("acknowledge", "acknowledgeCloudEvents"),
    **_settling("release", "releaseCloudEvents"),
    **_settling("reject", "rejectCloudEvents"),
    **_settling("renewLock", "renewCloudEventLocks"),
}
