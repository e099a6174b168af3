"""Operations for operators: namespaces, brokers, controllers."""

from __future__ import annotations

from typing import Final

from entrepot.domain.cluster import AWAY, FOLLOWS, LEADS, OUTSIDE, WAITS
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.http.admin.brokers import BrokerChange, Election, ReplicaCounting
from entrepot.gateway.http.admin.common import PREFIX, schema_of
from entrepot.gateway.http.admin.controllers import NewController
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape, listed, named, time

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
                        "lost": 0,
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
        "state": Choice((LEADS, FOLLOWS, WAITS, AWAY, OUTSIDE)),
        "problem": Maybe("it does not answer"),
    },
)
BRIDGE_FIELDS: Final = {
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
}
BRIDGE: Final = named("Bridge", "A bridge to another MQTT broker, as one gateway knows it", BRIDGE_FIELDS)

_BACKUP: Final = named(
    "Backup",
    "A broker's backup of itself: the run under way, or the last one since the broker's start",
    {
        "broker": "broker-0",
        "place": "s3://backups/plant",
        "began": Maybe(time()),
        "isRunning": False,
        "from": 0,
        "to": 4_194_304,
        "taken": Maybe(time()),
        "copiedBytes": 65_536,
        "key": Maybe("5f1c0d8e2b7a4c90"),
        "problem": Maybe("the disk is full: make room, or take a larger one"),
    },
)
SERVER_OPERATIONS: Final[Operations] = {
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
    ("GET", f"{PREFIX}/brokers/{{name}}/backup"): Operation("getBackup", answers(_BACKUP)),
    ("POST", f"{PREFIX}/brokers/{{name}}:backup"): Operation("startBackup", answers(_BACKUP)),
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
}
OPERATOR_OPERATIONS: Final[Operations] = SERVER_OPERATIONS
