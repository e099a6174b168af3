"""Operations on events: pull delivery as in Event Grid's API, subscriptions."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.documents.operation import GONE, Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import (
    Anything,
    Choice,
    Either,
    Keyed,
    Maybe,
    Shape,
    named,
    of_shown,
    shape,
    time,
)
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

_DIALECTS: Final = {"prefix": {"subject": "line1/"}}
_CONFIG: Final = {
    "start": "latest",
    "mode": Choice(("binary", "structured", "batched")),
    "batchsize": 100,
    "ordered": False,
    "maxattempts": 16,
    "timeoutseconds": 30.0,
    "initialbackoffseconds": 1.0,
    "maxbackoffseconds": 600.0,
    "maxageseconds": Maybe(86_400),
    "handshake": Choice(("required", "optional", "off")),
    "ratelimit": Maybe(6000),
    "signingsecret": Maybe("***"),
}
_CREDENTIAL: Final = {
    "credentialtype": Choice(("PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "OAUTH2")),
    "tokenendpoint?": "https://login.example/token",
    "scope?": "events",
    "accesstokenexpiresutc?": "2026-12-01T08:00:00Z",
    "accesstokentype?": "Bearer",
    "identifier?": "***",
    "secret?": "***",
    "accesstoken?": "***",
    "refreshtoken?": "***",
}
_STATUS: Final = {
    "state": Choice(("active", "unverified", "suspended")),
    "reason": Maybe("the sink is gone"),
    "consent": Maybe(Choice(("granted", "denied"))),
    "allowedrate": Maybe(Either((6000, "*"))),
    "catchingup": False,
    "created": time(),
    "updated": time(),
    "lastanswer?": Maybe("204"),
    "circuitopen?": False,
}
SUBSCRIPTION_FIELDS: Final = {
    "id": "3f2a9c01d4e5b677",
    "source": "/default/factory",
    "types": ["reading"],
    "config": _CONFIG,
    "filters": [Anything(_DIALECTS)],
    "sink": "https://receiver.example/events",
    "sinkcredential?": _CREDENTIAL,
    "protocol": Choice(("HTTP",)),
    "protocolsettings": {"method": Choice(("POST", "PUT")), "headers": Keyed("x-api-key", "***")},
    "status": _STATUS,
}
_SUBSCRIPTION: Final = named(
    "Subscription", "A subscription (CloudEvents Subscriptions API, draft), without its secrets", SUBSCRIPTION_FIELDS
)
_TO_SUBSCRIBE: Final = {
    "source": "factory",
    "types": ["reading"],
    "filters": [_DIALECTS, {"sql": "celsius > 30"}],
    "sink": "https://receiver.example/events",
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"x-api-key": "secret"}},
    "config": {"mode": "structured", "ordered": True, "maxattempts": 10},
}
_CONSENT: Final = "/webhooks/consent/{namespace}/{id}/{token}"


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
    ("POST", "/subscriptions"): Operation(
        "createSubscription",
        {201: Answer("Created", shape(_SUBSCRIPTION), headers={"Location": "The path of the subscription"})},
        example=_TO_SUBSCRIBE,
    ),
    ("GET", "/subscriptions"): Operation("listSubscriptions", answers([_SUBSCRIPTION])),
    ("GET", "/subscriptions/{id}"): Operation("getSubscription", answers(_SUBSCRIPTION)),
    ("PUT", "/subscriptions/{id}"): Operation("updateSubscription", answers(_SUBSCRIPTION), example=_TO_SUBSCRIBE),
    ("DELETE", "/subscriptions/{id}"): Operation("deleteSubscription", GONE),
    ("GET", _CONSENT): Operation("consentByLink", {204: Answer("Consented")}),
    ("POST", _CONSENT): Operation("consent", {204: Answer("Consented")}),
}
