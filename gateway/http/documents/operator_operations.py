"""Operations for operators: namespaces, brokers, controllers, users and rights."""

from __future__ import annotations

from typing import Final

from entrepot.domain.access.model import Action, Effect
from entrepot.domain.cluster import AWAY, FOLLOWS, LEADS, WAITS
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.http.admin.brokers import BrokerChange, Election, ReplicaCounting
from entrepot.gateway.http.admin.common import PREFIX, schema_of
from entrepot.gateway.http.admin.controllers import NewController
from entrepot.gateway.http.admin.namespaces import NamespaceChange
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers, put
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape, listed, named, shape, time

_NAMESPACE: Final = named("Namespace", "A namespace", {"name": "team", "topics": 3, "groups": 2})
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
_USER: Final = named(
    "User",
    "A user, without secrets",
    {"name": "bob", "super": False, "enabled": True, "hasPassword": True, "hasSigningSecret": False},
)
_STATEMENT: Final = named(
    "Statement",
    "What a policy says",
    {
        "effect": Choice(tuple(Effect)),
        "actions": [Choice((Action.PUB, *(each for each in Action if each is not Action.PUB)))],
        "resources": ["Topic:factory/#"],
        "sources": ["192.0.2.0/24"],
    },
)
_POLICY: Final = named(
    "AccessPolicy", "All statements about a subject", {"subject": "User:bob", "statements": [_STATEMENT]}
)
_DECISION: Final = {
    "decision": Choice(tuple(Effect)),
    "reason": "a statement allows it",
    "subject": Maybe("User:bob"),
    "statement": Maybe(_STATEMENT),
}
_ENTRY: Final = {
    "number": 12,
    "time": time(),
    "event": "denied",
    "subject": "bob",
    "source": "192.0.2.7",
    "protocol": "http",
    "action": "PUB",
    "resource": "Topic:factory",
    "detail": "",
}
_SAID: Final = {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:factory/#"]}

SERVER_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/namespaces"): Operation("listNamespaces", answers(listed(_NAMESPACE))),
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
}
ACCESS_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/users"): Operation("listUsers", answers(listed(_USER, next=Maybe("bob")))),
    ("GET", f"{PREFIX}/users/{{name}}"): Operation("getUser", answers(_USER)),
    ("PUT", f"{PREFIX}/users/{{name}}"): Operation(
        "putUser", put(_USER), example={"password": "a long one", "super": False}
    ),
    ("DELETE", f"{PREFIX}/users/{{name}}"): Operation("deleteUser", GONE),
    ("GET", f"{PREFIX}/audit"): Operation("listAuditEntries", answers(listed(_ENTRY, suppressed=0))),
    ("GET", f"{PREFIX}/acls"): Operation("listAccessPolicies", answers(listed(_POLICY, next=Maybe("bob")))),
    ("GET", f"{PREFIX}/acls:explain"): Operation("explainAccess", answers(shape(_DECISION))),
    ("GET", f"{PREFIX}/acls/{{subject}}"): Operation("getAccessPolicy", answers(_POLICY)),
    ("PUT", f"{PREFIX}/acls/{{subject}}"): Operation("putAccessPolicy", put(_POLICY), example={"statements": [_SAID]}),
    ("DELETE", f"{PREFIX}/acls/{{subject}}"): Operation("deleteAccessPolicy", GONE),
}
OPERATOR_OPERATIONS: Final[Operations] = {**SERVER_OPERATIONS, **ACCESS_OPERATIONS}
