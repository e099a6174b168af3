"""Operations of rights and rules: users, policies, the access tester, the audit log, settings."""

from __future__ import annotations

from typing import Final

from entrepot.domain.access.explanation import Outcome, Reach
from entrepot.domain.access.model import Action, Effect
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.documents.dashboard_operations import ANSWERED
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers, put
from entrepot.gateway.http.documents.shapes import Anything, Choice, Maybe, listed, named, time

_USER: Final = named(
    "User",
    "A user, without secrets; `statements`: number of those in its policy",
    {
        "name": "bob",
        "super": False,
        "enabled": True,
        "hasPassword": True,
        "hasSigningSecret": False,
        "statements": 2,
    },
)
_SAID: Final = {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:factory/#"]}
_STATEMENT_SAMPLE: Final = {
    "effect": Choice(tuple(Effect)),
    "actions": [Choice((Action.PUB, *(each for each in Action if each is not Action.PUB)))],
    "resources": ["Topic:factory/#"],
    "sources": ["192.0.2.0/24"],
}
_STATEMENT: Final = named("Statement", "What a policy says", _STATEMENT_SAMPLE)
_TOLD: Final = named(
    "StatementWithText",
    "What a policy says, with the same in one line",
    {**_STATEMENT_SAMPLE, "text": "ALLOW PUB on Topic:factory/# from 192.0.2.0/24"},
)
_POLICY: Final = named(
    "AccessPolicy", "All statements about a subject", {"subject": "User:bob", "statements": [_STATEMENT]}
)
_PLACE: Final = {"subject": "User:bob", "index": 1, "statement": _TOLD}
_MAYBE_PLACE: Final = {name: Maybe(sample) for name, sample in _PLACE.items()}
_DECISION: Final = named(
    "AccessDecision",
    "A decision, the statement behind it, the one that would decide without it, and the part of each statement",
    {
        "decision": Choice(tuple(Effect)),
        "reason": "a statement allows it",
        **_MAYBE_PLACE,
        "otherwise": Maybe({"decision": Choice(tuple(Effect)), **_MAYBE_PLACE}),
        "considered": [{**_PLACE, "outcome": Choice(tuple(Outcome))}],
    },
)
_EFFECTIVE: Final = named(
    "EffectiveRights",
    "All statements that decide about a subject, in order; `decision` is the one where no statement matters",
    {
        "subject": "User:bob",
        "isUser": True,
        "super": False,
        "enabled": Maybe(True),
        "decision": Maybe(Choice(tuple(Effect))),
        "reason": Maybe("a super user"),
        "value": [{"subject": "User:bob", "index": 1, **_STATEMENT_SAMPLE, "text": "ALLOW PUB on Topic:factory/#"}],
    },
)
_WHO: Final = named(
    "Reach",
    "What a subject may do with a resource, by action; `some`: only with a part of it, or from some addresses",
    {
        "subject": "User:bob",
        "super": False,
        "enabled": Maybe(True),
        "actions": {action: Choice(tuple(Reach)) for action in Action if action is not Action.ALL},
    },
)
_ENTRY: Final = named(
    "AuditEntry",
    "A failed login, a denial, a change, or a look at contents; `number` is its gateway's own",
    {
        "number": 12,
        "time": time(),
        "event": "denied",
        "subject": "bob",
        "source": "192.0.2.7",
        "protocol": "http",
        "action": "PUB",
        "resource": "Topic:factory",
        "detail": "",
        "isRefusal": True,
        "isLook": False,
        "gateway": "gw-1",
    },
)
_CURSOR: Final = "253402214400000/9f8e7d6c5b4a3f2e/9223372036854775795"
_SETTING: Final = named(
    "Setting",
    "A setting of this gateway, and the gateways whose value is another one; a secret is masked",
    {
        "key": "mqtt.port",
        "section": "mqtt",
        "name": "port",
        "value": Anything(1884),
        "default": Anything(1883),
        "origin": "environment ENTREPOT__MQTT__PORT",
        "isSet": True,
        "isSecret": False,
        "description": "Port of MQTT over TCP",
        "different": [{"gateway": "gw-2", "value": Anything(1883), "origin": Maybe("default")}],
    },
)

ACCESS_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/users"): Operation("listUsers", answers(listed(_USER, next=Maybe("bob")))),
    ("GET", f"{PREFIX}/users/{{name}}"): Operation("getUser", answers(_USER)),
    ("PUT", f"{PREFIX}/users/{{name}}"): Operation(
        "putUser", put(_USER), example={"password": "a long one", "super": False}
    ),
    ("DELETE", f"{PREFIX}/users/{{name}}"): Operation("deleteUser", GONE),
    ("GET", f"{PREFIX}/acls"): Operation("listAccessPolicies", answers(listed(_POLICY, next=Maybe("bob")))),
    ("GET", f"{PREFIX}/acls:explain"): Operation("explainAccess", answers(_DECISION)),
    ("GET", f"{PREFIX}/acls:effective"): Operation("listEffectiveRights", answers(_EFFECTIVE)),
    ("GET", f"{PREFIX}/acls:who"): Operation("listWhoMay", answers(listed(_WHO, next=Maybe("bob")))),
    ("GET", f"{PREFIX}/acls/{{subject}}"): Operation("getAccessPolicy", answers(_POLICY)),
    ("PUT", f"{PREFIX}/acls/{{subject}}"): Operation("putAccessPolicy", put(_POLICY), example={"statements": [_SAID]}),
    ("DELETE", f"{PREFIX}/acls/{{subject}}"): Operation("deleteAccessPolicy", GONE),
    ("GET", f"{PREFIX}/settings"): Operation(
        "listSettings", answers(listed(_SETTING, next=Maybe(""), gateway="gw-1", answered=ANSWERED))
    ),
}
