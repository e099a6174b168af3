"""Operations of the dashboard: the login of a browser, the gateways, the overview."""

from __future__ import annotations

from typing import Final

from entrepot.domain.access.model import Action, ResourceType
from entrepot.gateway.http.documents.operation import GONE, Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Keyed, Maybe, Shape, named, of_shown, time
from entrepot.gateway.http.overview.alarms import Severity
from entrepot.gateway.http.overview.figures import DOORS
from entrepot.gateway.operations.bridges import BridgeShown
from entrepot.gateway.operations.brokers import BrokerShown
from entrepot.gateway.operations.controllers import ControllerShown
from entrepot.gateway.operations.gathered import AnsweredShown
from entrepot.gateway.operations.operation import PREFIX

ANSWERED: Final = of_shown(AnsweredShown)
_LOGIN: Final = named(
    "Login",
    "Who this browser is, and what that user may do to everything of a kind",
    {
        "user": Maybe("bob"),
        "isAnonymous": False,
        "isSuper": False,
        "expiresAt": Maybe(time()),
        "setupNeeded": False,
        "tls": True,
        "cluster": "default",
        "gateway": "gw-1",
        "version": "1.0.0",
        "may": [f"{ResourceType.CLUSTER}:{Action.LIST}"],
    },
)
_PROCESS: Final = {
    "name": "gw-1",
    "version": "1.0.0",
    "startedAt": time(),
    "isThis": True,
    "silentSeconds": Maybe(28.5),
}
_LAG: Final = {
    "namespace": "default",
    "topic": "orders",
    "group": "billing",
    "messages": "284190",
    "seconds": Maybe(221.5),
    "isComplete": True,
}
_DOOR: Final = {
    "door": Choice(DOORS),
    "connections": Maybe(61204.0),
    "in": Maybe(5640.5),
    "out": Maybe(9120.5),
    "bytesIn": Maybe(98304.5),
    "refused": Maybe(0.5),
}
_OPEN_FILES: Final = {"used": 20980, "limit": 65536, "refusedFrom": 65024}
_ALARM: Final = {
    "severity": Choice(tuple(Severity)),
    "subject": "Group billing falls behind on orders",
    "text": "284,190 messages, the oldest 4 min old",
    "since": time(),
    "link": "#/groups/billing",
}
_OVERVIEW: Final = named(
    "ClusterOverview",
    "The cluster now; where a gateway has not answered, sums are lower bounds",
    {
        "cluster": "default",
        "gateway": "gw-1",
        "version": "1.0.0",
        "time": time(),
        "answered": ANSWERED,
        "doors": [_DOOR],
        "confirm": {"p50": Maybe(2.1), "p99": Maybe(7.4)},
        "furthest": Maybe(_LAG),
        "lags": Maybe([_LAG]),
        "gauges": Keyed("disk_state", 0.0),
        "gateways": [
            {
                **_PROCESS,
                "connections": Maybe(20871.0),
                "cpu": Maybe(0.41),
                "openFiles": Maybe(_OPEN_FILES),
                "clockErrorSeconds": Maybe(0.0),
                "clockProblem": Maybe(""),
            }
        ],
        "brokers": [of_shown(BrokerShown)],
        "controllers": [of_shown(ControllerShown)],
        "nameServers": [{"address": "192.0.2.10:9000", "isAvailable": True}],
        "bridges": [of_shown(BridgeShown)],
        "failing": [{"gateway": "gw-1", "work": "expiry of queues", "reason": "KeyError: 'q'"}],
        "counts": Keyed("topics", 12),
        "alarms": [_ALARM],
        "disk": [{"free": 412e9, "size": 500e9, "isComplete": True}],
        "tier": Maybe({"bytes": 8.5e12, "lagMessages": 0.0}),
    },
)
_HISTORY: Final = {
    "end": 1790000000,
    "step": 10,
    "series": Keyed("in.mqtt", [Maybe(5640.5)]),
    "events": [{"at": 1789999000, "text": "broker-1: epoch 42"}],
    "answered": ANSWERED,
}
_STREAM: Final = Shape({"type": "string"}, 'event: overview\ndata: {"doors": []}\n\n')

DASHBOARD_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/session"): Operation("getLogin", answers(_LOGIN)),
    ("POST", f"{PREFIX}/session"): Operation("logIn", answers(_LOGIN), example={"name": "bob", "password": "secret"}),
    ("DELETE", f"{PREFIX}/session"): Operation("logOut", GONE),
    ("GET", f"{PREFIX}/overview"): Operation("getClusterOverview", answers(_OVERVIEW)),
    ("GET", f"{PREFIX}/overview/history"): Operation("getClusterHistory", answers(_HISTORY)),
    ("GET", f"{PREFIX}/overview:watch"): Operation(
        "watchClusterOverview", {200: Answer("Server-sent events, without an end", _STREAM, "text/event-stream")}
    ),
}
