"""Operations on clients of all gateways: MQTT, AMQP, RocketMQ, webhooks, bridges."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.documents.bridge_shape import BRIDGE_FIELDS
from entrepot.gateway.http.documents.dashboard_operations import ANSWERED
from entrepot.gateway.http.documents.event_operations import REFUSAL, SUBSCRIPTION_FIELDS
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers
from entrepot.gateway.http.documents.rabbitmq_shapes import (
    CHANNEL_FIELDS,
    CONNECTION,
    CONNECTION_FIELDS,
    CONSUMER_FIELDS,
)
from entrepot.gateway.http.documents.shapes import Choice, Keyed, Maybe, Shape, listed, named, time
from entrepot.gateway.mqtt.connections.history import EventKind
from entrepot.gateway.mqtt.connections.in_flight import Stage

_GATEWAY: Final = "gateway-1"


def _of_all(sample: Any, **more: Any) -> Shape:
    """A list over all gateways; each row has its gateway."""
    return listed(sample, **more, answered=ANSWERED)


_CLIENT_FIELDS: Final = {
    "id": "line-1",
    "user": Maybe("bob"),
    "version": "5.0",
    "address": "192.0.2.7:40112",
    "listener": Maybe("mqtt"),
    "tls": Maybe(False),
    "connectedSince": Maybe(time()),
    "keepAlive": 60,
    "cleanStart": True,
    "sessionExpiry": 3600,
    "subscriptions": 2,
    "inFlight": 0,
    "queued": 0,
    "lagging": 0,
    "dropped": 0,
    "refused": 3,
    "messagesIn": 12,
    "messagesOut": 40,
    "bytesIn": 900,
    "bytesOut": 3100,
    "gateway": _GATEWAY,
}
_CLIENT: Final = named("Client", "An MQTT client that is connected to a gateway", _CLIENT_FIELDS)
_FILTER: Final = {
    "filter": "factory/#",
    "qos": 1,
    "noLocal": False,
    "retainAsPublished": False,
    "retainHandling": 0,
    "identifier": Maybe(7),
}
_IN_FLIGHT: Final = {
    "packetId": 411,
    "qos": 1,
    "waitsFor": Choice(tuple(Stage)),
    "name": Maybe("factory/line1/temp"),
    "topic": Maybe("factory"),
    "queueId": Maybe(2),
    "offset": Maybe("41"),
    "isRetained": False,
    "storeTime": Maybe(time()),
    "ageSeconds": Maybe(0.2),
}
_WHOLE_CLIENT: Final = named(
    "WholeClient",
    "A client with its session, subscriptions, will, messages in flight, and why it does not send or get",
    {
        **_CLIENT_FIELDS,
        "lastPacketSeconds": 0.2,
        "session": {
            "continued": True,
            "isDurable": True,
            "expirySeconds": 3600,
            "receiveMaximum": 32,
            "receiveMaximumFromClient": 1024,
            "maxQueued": 1000,
            "maxPacketSize": Maybe(262_144),
        },
        "will": Maybe({"topic": "factory/line1/gone", "qos": 1, "retain": True, "size": 4, "delaySeconds": 30}),
        "subscribedTo": [_FILTER],
        "inFlightMessages": [_IN_FLIGHT],
        "halfReceived": [9012],
        "output": {
            "queuedBytes": 0,
            "unrecordedBytes": 0,
            "socketBytes": 0,
            "isCongested": False,
            "isReadingPaused": False,
        },
        "facts": [{"kind": "window-full", "isTrouble": True, "text": "32 messages wait for its acknowledgement"}],
        "lastRefusal": Maybe(
            {"time": Maybe(time()), "reason": "QUOTA_EXCEEDED", "text": "a/#: a client has at most 1000 subscriptions"}
        ),
        "isTraced": False,
        "answered": ANSWERED,
    },
)
_EVENT: Final = {
    "time": Maybe(time()),
    "event": Choice(tuple(EventKind)),
    "reason": Maybe("SERVER_SHUTTING_DOWN"),
    "text": "the server is shutting down",
    "address": "192.0.2.7:40112",
    "user": Maybe("bob"),
    "version": Maybe("5"),
    "count": 1,
    "lastTime": Maybe(time()),
    "gateway": _GATEWAY,
}
_SLOW: Final = {
    "id": "line-1",
    "address": "192.0.2.7:40112",
    "behind": 4000,
    "queued": 100,
    "inFlight": 20,
    "dropped": 0,
    "gateway": _GATEWAY,
}
_DISCONNECTED: Final = {"id": "line-1", "disconnected": True, "error?": REFUSAL}
_SESSION_HEAD: Final = {
    "id": "line-1",
    "user": Maybe("bob"),
    "version": "5.0",
    "connected": True,
    "gateway": Maybe(_GATEWAY),
    "address": Maybe("192.0.2.7:40112"),
    "connectedSince": Maybe(time()),
    "disconnectedSince": Maybe(time()),
    "sessionExpiry": 3600,
    "expiresAt": Maybe(time()),
    "subscriptionCount": 2,
    "will": Maybe("factory/line1/gone"),
    "willAt": Maybe(time()),
}
_SESSION: Final = named("Session", "An MQTT session of any gateway", _SESSION_HEAD)
_WHOLE_SESSION: Final = named(
    "WholeSession",
    "The same with its subscriptions, and how many messages are on their way",
    {**_SESSION_HEAD, "inFlight": 1, "halfReceived": 0, "subscriptions": [_FILTER]},
)
_PACKET: Final = {
    "time": Maybe(time()),
    "client": "line-1",
    "address": "192.0.2.7:40112",
    "direction": Choice(("in", "out")),
    "type": "PUBLISH",
    "gateway": _GATEWAY,
}
_TRACE_HEAD: Final = {"target": "line-1", "until": Maybe(time()), "payloads": False, "seen": 1}
_TRACE: Final = named(
    "PacketTrace",
    "Packets of one client at all gateways; each has the fields of its type besides",
    {**_TRACE_HEAD, "packets": [_PACKET], "answered": ANSWERED},
)
_ROCKETMQ_CLIENT: Final = named(
    "RocketMqClient",
    "A RocketMQ client with an open Telemetry stream, as it described itself",
    {
        "id": "host@7@0@abc",
        "kind": Maybe("push-consumer"),
        "group": Maybe("workers"),
        "topics": [{"name": "orders", "filter": Maybe("a || b")}],
        "user": Maybe("bob"),
        "address": "192.0.2.7",
        "connectedSince": Maybe(time()),
        "language": Maybe("java"),
        "version": Maybe("5.0.8"),
        "hostname": Maybe("host"),
        "inFlight": Maybe(3),
        "gateway": _GATEWAY,
    },
)
_COUNTS: Final = {"received": 12, "sent": 40, "refusedIn": 0, "refusedOut": 0, "ignored": 0, "connects": 1}
_STATE: Final = Choice(tuple(each.value for each in BridgeState))
_BRIDGE: Final = named(
    "WholeBridge",
    "A bridge to another MQTT broker, as its gateway knows it; counts are sums over the gateways",
    {**BRIDGE_FIELDS, "gateway": Maybe(_GATEWAY), "byGateway": [{"gateway": _GATEWAY, "state": _STATE, **_COUNTS}]},
)
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
_JOB: Final = named(
    "IngestJob",
    "A Spark job that keeps a table of topics, by its last report; the lag is that of now",
    {
        "id": "7b0c4f1c-2a9e-4b7d-8c5a-0f1e2d3c4b5a",
        "table": "/lake/factory",
        "format": "delta",
        "version": Maybe("41"),
        "state": Choice(("running", "ended", "failed", "silent")),
        "reason": Maybe("DATA_LOSS: messages are gone"),
        "host": "spark-1",
        "reportedAt": Maybe(time()),
        "batch": Maybe(12),
        "batchAt": Maybe(time()),
        "batchRows": 5000,
        "batchSeconds": 1.5,
        "topics": [{"name": "factory", "queues": 4, "lag": Maybe(12), "offsets": [{"queueId": 0, "offset": "41"}]}],
    },
)
_NEXT: Final = Maybe("line-2")
_CURSOR: Final = Maybe("bGluZS0x")

MQTT_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/clients"): Operation("listClients", answers(_of_all(_CLIENT, next=_NEXT))),
    ("POST", f"{PREFIX}/clients:disconnect"): Operation(
        "disconnectClients", answers(listed(_DISCONNECTED)), example={"ids": ["line-1", "line-2"]}
    ),
    ("GET", f"{PREFIX}/clients/{{id}}"): Operation("getClient", answers(_WHOLE_CLIENT)),
    ("DELETE", f"{PREFIX}/clients/{{id}}"): Operation("disconnectClient", GONE),
    ("GET", f"{PREFIX}/clients/{{id}}/events"): Operation(
        "listClientEvents", answers(_of_all(_EVENT, since=Keyed(_GATEWAY, Maybe(time()))))
    ),
    ("GET", f"{PREFIX}/subscriptions"): Operation(
        "listClientSubscriptions",
        answers(_of_all({"client": "line-1", **_FILTER, "gateway": _GATEWAY}, next=_CURSOR)),
    ),
    ("GET", f"{PREFIX}/slow-subscribers"): Operation("listSlowSubscribers", answers(_of_all(_SLOW))),
    ("GET", f"{PREFIX}/sessions"): Operation("listSessions", answers(listed(_SESSION, next=_NEXT))),
    ("GET", f"{PREFIX}/sessions/{{id}}"): Operation("getSession", answers(_WHOLE_SESSION)),
    ("DELETE", f"{PREFIX}/sessions/{{id}}"): Operation("endSession", GONE),
    ("GET", f"{PREFIX}/traces"): Operation("listPacketTraces", answers(_of_all(_TRACE_HEAD))),
    ("PUT", f"{PREFIX}/traces/{{client}}"): Operation(
        "startPacketTrace", answers(_TRACE), example={"seconds": 60, "payloads": False}
    ),
    ("GET", f"{PREFIX}/traces/{{client}}"): Operation("getPacketTrace", answers(_TRACE)),
    ("DELETE", f"{PREFIX}/traces/{{client}}"): Operation("endPacketTrace", GONE),
}
CLIENT_OPERATIONS: Final[Operations] = {
    **MQTT_OPERATIONS,
    ("GET", f"{PREFIX}/amqp/connections"): Operation(
        "listAmqpConnections", answers(_of_all({**CONNECTION_FIELDS, "gateway": _GATEWAY}, next=_CURSOR))
    ),
    ("GET", f"{PREFIX}/amqp/connections/{{name}}"): Operation(
        "getAmqpConnection",
        answers(
            {
                "connection": CONNECTION,
                "channels": [{**CHANNEL_FIELDS, "consumer_details": [CONSUMER_FIELDS]}],
                "gateway": _GATEWAY,
                "answered": ANSWERED,
            }
        ),
    ),
    ("POST", f"{PREFIX}/amqp/connections:close"): Operation(
        "closeAmqpConnections",
        answers(_of_all({"name": "192.0.2.7:40112 -> 192.0.2.1:5672", "closed": True})),
        example={"names": ["192.0.2.7:40112 -> 192.0.2.1:5672"], "reason": "maintenance"},
    ),
    ("GET", f"{PREFIX}/amqp/consumers"): Operation(
        "listAmqpConsumers", answers(_of_all({**CONSUMER_FIELDS, "gateway": _GATEWAY}, next=_CURSOR))
    ),
    ("GET", f"{PREFIX}/rocketmq/clients"): Operation(
        "listRocketMqClients", answers(_of_all(_ROCKETMQ_CLIENT, next=_CURSOR))
    ),
    ("DELETE", f"{PREFIX}/rocketmq/clients/{{id}}"): Operation("disconnectRocketMqClient", GONE),
    ("POST", f"{PREFIX}/rocketmq/clients:disconnect"): Operation(
        "disconnectRocketMqClients", answers(_of_all(_DISCONNECTED)), example={"ids": ["host@7@0@abc"]}
    ),
    ("GET", f"{PREFIX}/webhooks"): Operation(
        "listWebhooks", answers(_of_all(_WEBHOOK, next=Maybe("3f2a9c01d4e5b677")))
    ),
    ("GET", f"{PREFIX}/webhooks/{{id}}"): Operation("getWebhook", answers({**_WEBHOOK_FIELDS, "answered": ANSWERED})),
    ("GET", f"{PREFIX}/bridges"): Operation("listBridges", answers(_of_all(_BRIDGE))),
    ("GET", f"{PREFIX}/ingest-jobs"): Operation("listIngestJobs", answers(listed(_JOB, next=Maybe("4f1c2a9e")))),
    ("DELETE", f"{PREFIX}/ingest-jobs/{{id}}"): Operation("forgetIngestJob", GONE),
}
