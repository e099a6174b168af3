"""Texts of operations on the dashboard, kept to the letter: independent of the table that it is made of.

Tests hold both ends against it: the page writes these texts, and the command that is typed so sends the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Kept:
    """`id`, `names`, `body`, `how`: as a page gives them to `same`.  `cli`: the command.  `rest`: method and path."""

    id: str
    cli: str | None
    rest: str
    names: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    how: dict[str, Any] = field(default_factory=dict)


_CREATE: Final = {"command": "create"}
_UPDATE: Final = {"command": "update"}
_OWN: Final = {"query": {"confirm": "own-rights"}}
_SURE: Final = {"isSure": True}
_TEAM: Final = {"name": "crew", "namespace": "the team"}
KEPT: Final = (
    Kept(
        "putGroup",
        "entrepot group create made --max-attempts 7 --no-fifo",
        "PUT /api/v1/groups/made",
        {"name": "made", "namespace": "default"},
        {"maxAttempts": 7, "fifo": False},
        _CREATE,
    ),
    Kept(
        "putGroup",
        "entrepot group update crew --retry list:1000,5000 --max-in-flight none --fifo --filter 'TAG:a || b'"
        " --namespace 'the team'",
        "PUT /api/v1/namespaces/the%20team/groups/crew",
        _TEAM,
        {
            "retry": {"kind": "list", "delaysMs": [1000, 5000]},
            "maxInFlight": None,
            "fifo": True,
            "filter": {"kind": "TAG", "text": "a || b"},
        },
        _UPDATE,
    ),
    Kept(
        "putGroup",
        "entrepot group update g --retry exponential:1000:60000:2 --filter none",
        "PUT /api/v1/groups/g",
        {"name": "g"},
        {"retry": {"kind": "exponential", "initialMs": 1000, "maxMs": 60000, "multiplier": 2}, "filter": None},
        _UPDATE,
    ),
    Kept(
        "putGroup",
        "entrepot group update --retry immediate -- -g",
        "PUT /api/v1/groups/-g",
        {"name": "-g"},
        {"retry": {"kind": "immediate"}},
        _UPDATE,
    ),
    Kept(
        "putGroup",
        None,  # no text of --retry has the first wait alone
        "PUT /api/v1/groups/g",
        {"name": "g"},
        {"retry": {"kind": "exponential", "initialMs": 1000}},
        _UPDATE,
    ),
    Kept("putGroup", "entrepot group create NAME", "PUT /api/v1/groups/NAME", {}, {}, _CREATE),
    Kept(
        "deleteGroup",
        "entrepot group delete '%DLQ% it'\\''s'",
        "DELETE /api/v1/groups/%25DLQ%25%20it's",
        {"name": "%DLQ% it's"},
    ),
    Kept(
        "deleteGroup",
        "entrepot group delete crew --namespace 'the team' --yes",
        "DELETE /api/v1/namespaces/the%20team/groups/crew",
        _TEAM,
        None,
        _SURE,
    ),
    Kept(
        "resetGroup",
        "entrepot group reset g orders --to 2026-12-01T00:00:00Z --queue 0",
        "POST /api/v1/groups/g:reset",
        {"name": "g"},
        {"topic": "orders", "to": "2026-12-01T00:00:00Z", "queueId": 0},
    ),
    Kept(
        "putTopic",
        "entrepot topic create returns --queues 3 --max-backlog none --trace 0.5 --on broker-0=4 --on broker-1=2",
        "PUT /api/v1/topics/returns",
        {"name": "returns"},
        {"queues": 3, "maxBacklog": None, "trace": 0.5, "placement": {"broker-0": 4, "broker-1": 2}},
        _CREATE,
    ),
    Kept("putTopic", None, "PUT /api/v1/topics/returns", {"name": "returns"}, {"placement": None}, _UPDATE),
    Kept("deleteTopic", "entrepot topic delete a/b", "DELETE /api/v1/topics/a%2Fb", {"name": "a/b"}),
    Kept("getUser", "entrepot user show till", "GET /api/v1/users/till", {"name": "till"}),
    Kept(
        "putUser",
        "entrepot user update boss --no-super --own",
        "PUT /api/v1/users/boss?confirm=own-rights",
        {"name": "boss"},
        {"super": False},
        _OWN,
    ),
    Kept(
        "putUser",
        "entrepot user update boss --disable",
        "PUT /api/v1/users/boss",
        {"name": "boss"},
        {"enabled": False, "password": "<password>"},
    ),
    Kept(
        "deleteUser",
        "entrepot user delete boss --own",
        "DELETE /api/v1/users/boss?confirm=own-rights",
        {"name": "boss"},
        None,
        _OWN,
    ),
    Kept("putNamespace", "entrepot namespace create plant", "PUT /api/v1/namespaces/plant", {"name": "plant"}, {}),
    Kept("deleteNamespace", "entrepot namespace delete plant", "DELETE /api/v1/namespaces/plant", {"name": "plant"}),
    Kept(
        "recallMessage", "entrepot timer recall abc --yes", "DELETE /api/v1/timers/abc", {"handle": "abc"}, None, _SURE
    ),
    Kept(
        "retimeMessage",
        "entrepot timer retime abc 2026-12-01T00:00:00Z",
        "PUT /api/v1/timers/abc",
        {"handle": "abc", "deliverAt": "the time before"},
        {"deliverAt": "2026-12-01T00:00:00Z"},
    ),
    Kept(
        "endSession",
        "entrepot session delete --yes -- -away",
        "DELETE /api/v1/sessions/-away",
        {"id": "-away"},
        None,
        _SURE,
    ),
    Kept("forgetIngestJob", "entrepot job forget job-two", "DELETE /api/v1/ingest-jobs/job-two", {"id": "job-two"}),
    Kept("deleteAccessPolicy", "entrepot acl delete '*'", "DELETE /api/v1/acls/*", {"subject": "*"}),
    Kept("putBroker", None, "PUT /api/v1/brokers/broker-1", {"name": "broker-1"}, {"isDraining": True}),
    Kept("removeReplica", None, "DELETE /api/v1/brokers/b/replicas/2", {"name": "b", "replica": 2}),
)
