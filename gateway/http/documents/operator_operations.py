"""Operations for operators: clients, sessions, traces, namespaces, brokers, controllers, bridges."""

from __future__ import annotations

from typing import Final

from entrepot.domain.cluster import AWAY, FOLLOWS, LEADS, WAITS
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.http.admin.brokers import BrokerChange, Election, ReplicaCounting
from entrepot.gateway.http.admin.common import PREFIX, schema_of
from entrepot.gateway.http.admin.controllers import NewController
from entrepot.gateway.http.admin.namespaces import NamespaceChange
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers, put
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape, listed, named, time

_CLIENT: Final = named(
    "Client",
    "An MQTT client that is connected to this gateway",
    {
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
        "messagesIn": 12,
        "messagesOut": 40,
        "bytesIn": 900,
        "bytesOut": 3100,
    },
)
_FILTER: Final = {
    "filter": "factory/#",
    "qos": 1,
    "noLocal": False,
    "retainAsPublished": False,
    "retainHandling": 0,
    "identifier": Maybe(7),
}
_SLOW: Final = {
    "id": "line-1",
    "address": "192.0.2.7:40112",
    "behind": 4000,
    "queued": 100,
    "inFlight": 20,
    "dropped": 0,
}
_SESSION_HEAD: Final = {
    "id": "line-1",
    "user": Maybe("bob"),
    "version": "5.0",
    "connected": True,
    "gateway": Maybe("gateway-1"),
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
}
_TRACE: Final = named(
    "PacketTrace",
    "Packets of one client; each has the fields of its type besides",
    {"target": "line-1", "until": Maybe(time()), "payloads": False, "seen": 1, "packets": [_PACKET]},
)
_NAMESPACE: Final = named(
    "Namespace",
    "A namespace, and what is in it; null where AMQP is disabled",
    {
        "name": "team",
        "topics": 3,
        "groups": 2,
        "vhost": Maybe("team"),
        "queues": Maybe(5),
        "exchanges": Maybe(8),
        "queuePolicies": Maybe(1),
    },
)
BROKER: Final = named(
    "Broker",
    "A broker, and what is on it; numbers are null while it is away",
    {
        "name": "broker-1",
        "number": 1,
        "address": "192.0.2.11:9101",
        "zone": "",
        "isAvailable": True,
        "isDraining": False,
        "keepsKeyValues": True,
        "problem": Maybe("it does not answer"),
        "unsettled": Maybe(4),
        "waiting": Maybe(0),
        "unread": Maybe(0),
        "keyValues": Maybe(12),
        "rule": Maybe("in-sync"),
        "epoch": Maybe(3),
        "replicas": [
            {
                "replica": 1,
                "address": "192.0.2.11:9101",
                "role": "master",
                "isInSync": True,
                "isObserver": False,
                "epoch": Maybe(3),
                "synced": Maybe(4096),
                "behind": Maybe(0),
                "behindSeconds": Maybe(0.0),
                "problem": Maybe("it does not answer"),
                "controlProblem": Maybe("its controllers do not answer"),
                "log": Maybe(
                    {
                        "healed": 1,
                        "corrupted": 0,
                        "forked": 0,
                        "diverged": [{"from": 0, "to": 95}],
                        "copiesFrom": Maybe(2),
                    }
                ),
            }
        ],
        "election": Maybe(
            {
                "epoch": 3,
                "reason": "replica 2 leads in epoch 3: replica 1 has been silent for 3.1 s, replica 2 has lost it too",
                "time": Maybe(time()),
                "isUnderWay": False,
                "problem": Maybe("an operator elects"),
            }
        ),
    },
)
CONTROLLER: Final = named(
    "Controller",
    "A controller, which elects the masters of brokers with the others",
    {
        "controller": Maybe(1),
        "address": "192.0.2.10:9876",
        "state": Choice((LEADS, FOLLOWS, WAITS, AWAY)),
        "problem": Maybe("it does not answer"),
    },
)
BRIDGE: Final = named(
    "Bridge",
    "A bridge to another MQTT broker",
    {
        "name": "plant",
        "url": "mqtts://plant.example:8883",
        "version": "5.0",
        "state": Choice(tuple(each.value for each in BridgeState)),
        "since": time(),
        "owner": Maybe("gateway-1"),
        "isHere": True,
        "lastError": Maybe("refused"),
        "received": 12,
        "sent": 40,
        "refusedIn": 0,
        "refusedOut": 0,
        "ignored": 0,
        "connects": 1,
    },
)
_NEXT: Final = Maybe("line-2")

CLIENT_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/clients"): Operation("listClients", answers(listed(_CLIENT, next=_NEXT))),
    ("GET", f"{PREFIX}/clients/{{id}}"): Operation("getClient", answers(_CLIENT)),
    ("DELETE", f"{PREFIX}/clients/{{id}}"): Operation("disconnectClient", GONE),
    ("GET", f"{PREFIX}/subscriptions"): Operation(
        "listClientSubscriptions", answers(listed({"client": "line-1", **_FILTER}, next=Maybe(100)))
    ),
    ("GET", f"{PREFIX}/slow-subscribers"): Operation("listSlowSubscribers", answers(listed(_SLOW))),
    ("GET", f"{PREFIX}/sessions"): Operation("listSessions", answers(listed(_SESSION, next=_NEXT))),
    ("GET", f"{PREFIX}/sessions/{{id}}"): Operation("getSession", answers(_WHOLE_SESSION)),
    ("DELETE", f"{PREFIX}/sessions/{{id}}"): Operation("endSession", GONE),
    ("PUT", f"{PREFIX}/traces/{{client}}"): Operation(
        "startPacketTrace", answers(_TRACE), example={"seconds": 60, "payloads": False}
    ),
    ("GET", f"{PREFIX}/traces/{{client}}"): Operation("getPacketTrace", answers(_TRACE)),
    ("DELETE", f"{PREFIX}/traces/{{client}}"): Operation("endPacketTrace", GONE),
}
SERVER_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/namespaces"): Operation("listNamespaces", answers(listed(_NAMESPACE, next=Maybe("team")))),
    ("GET", f"{PREFIX}/namespaces/{{name}}"): Operation("getNamespace", answers(_NAMESPACE)),
    ("PUT", f"{PREFIX}/namespaces/{{name}}"): Operation(
        "putNamespace", put(_NAMESPACE), body=Shape(schema_of(NamespaceChange), {})
    ),
    ("DELETE", f"{PREFIX}/namespaces/{{name}}"): Operation("deleteNamespace", GONE),
    ("GET", f"{PREFIX}/brokers"): Operation(
        "listBrokers",
        answers(listed(BROKER, nameServers=[{"address": "192.0.2.10:9000", "isAvailable": True}])),
    ),
    ("PUT", f"{PREFIX}/brokers/{{name}}"): Operation(
        "putBroker", answers(BROKER), body=Shape(schema_of(BrokerChange), {"isDraining": True})
    ),
    ("POST", f"{PREFIX}/brokers/{{name}}:elect"): Operation(
        "electMaster", answers(BROKER), body=Shape(schema_of(Election), {"to": 2})
    ),
    ("DELETE", f"{PREFIX}/brokers/{{name}}"): Operation("removeBroker", GONE),
    ("PUT", f"{PREFIX}/brokers/{{name}}/replicas/{{replica}}"): Operation(
        "putReplica", answers(BROKER), body=Shape(schema_of(ReplicaCounting), {"isObserver": True})
    ),
    ("DELETE", f"{PREFIX}/brokers/{{name}}/replicas/{{replica}}"): Operation("removeReplica", GONE),
    ("GET", f"{PREFIX}/controllers"): Operation("listControllers", answers(listed(CONTROLLER))),
    ("POST", f"{PREFIX}/controllers"): Operation(
        "addController",
        answers(listed(CONTROLLER), "The change has begun"),
        body=Shape(schema_of(NewController), {"controller": 4, "address": "192.0.2.14:9876", "replaces": 2}),
    ),
    ("DELETE", f"{PREFIX}/controllers/{{controller}}"): Operation("removeController", GONE),
    ("GET", f"{PREFIX}/bridges"): Operation("listBridges", answers(listed(BRIDGE))),
}
OPERATOR_OPERATIONS: Final[Operations] = {**CLIENT_OPERATIONS, **SERVER_OPERATIONS}
