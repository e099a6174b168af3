"""Fixed answers of a cluster in the middle of trouble: a failover, a group that falls behind, a silent gateway."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

NOW: Final = datetime(2026, 11, 22, 20, 41, 20, tzinfo=UTC)
_POINTS: Final = {300: (1, 300), 3600: (10, 360)}
_GAP: Final = (0.61, 0.635)
"""The part of the history in which nobody answered."""
HOSTILE: Final = "a<b>\u202egnp\x00"

SESSION: Final[dict[str, Any]] = {
    "user": "ops-2",
    "isSuper": True,
    "isAnonymous": False,
    "expiresAt": "2026-11-23T04:41:20Z",
    "setupNeeded": False,
    "tls": False,
    "cluster": "nordhafen",
    "gateway": "gw-2",
    "version": "1.8.0",
    "may": ["Cluster:LIST", "Cluster:UPDATE", "Cluster:DELETE"],
}
LOGGED_OUT: Final = {**SESSION, "user": None, "isSuper": False, "expiresAt": None, "may": []}


def _replica(number: int, role: str, behind: int, **more: Any) -> dict[str, Any]:
    return {
        "replica": number,
        "address": f"10.0.{number}.11:9876",
        "role": role,
        "isInSync": True,
        "isObserver": False,
        "epoch": 42,
        "synced": 305_881_220_640 - behind,
        "behind": behind,
        "behindSeconds": behind / 4_000_000,
        "problem": None,
        "controlProblem": None,
        "log": {"healed": 0, "corrupted": 0, "forked": 0, "diverged": [], "lost": 0, "copiesFrom": None},
        **more,
    }


def _broker(number: int, epoch: int, replicas: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": f"broker-{number}",
        "number": number,
        "address": f"10.0.1.1{number}:9876",
        "zone": "",
        "isAvailable": True,
        "isDraining": False,
        "keepsKeyValues": number == 0,
        "problem": None,
        "unsettled": 291_004,
        "waiting": 12,
        "unread": 0,
        "keyValues": 4_410 if number == 0 else 0,
        "rule": "in-sync",
        "epoch": epoch,
        "replicas": replicas,
        "election": {
            "epoch": epoch,
            "reason": "replica 3 was silent for 3 s",
            "time": "2026-11-22T20:18:31Z",
            "isUnderWay": False,
            "problem": None,
        },
    }


LAG: Final[dict[str, Any]] = {
    "namespace": "default",
    "topic": "orders",
    "group": "billing",
    "messages": "284190",
    "seconds": 221,
    "isComplete": True,
}
_COUNTERS: Final = ("received", "sent", "refusedIn", "refusedOut", "ignored", "connects")
BRIDGE: Final[dict[str, Any]] = {
    "name": "plant-west",
    "url": "mqtt://plant.example:1883",
    "version": 5,
    "state": "connected",
    "since": "2026-11-22T20:00:00Z",
    "owner": "gw-1",
    "isHere": False,
    "lastError": None,
    **dict.fromkeys(_COUNTERS, 1),
}
OVERVIEW: Final[dict[str, Any]] = {
    "cluster": "nordhafen",
    "gateway": "gw-2",
    "version": "1.8.0",
    "time": "2026-11-22T20:41:20Z",
    "answered": {"asked": 4, "answered": 3, "missing": [{"name": "gw-4", "reason": "gave no answer within 1.5 s"}]},
    "doors": [
        {"door": "mqtt", "connections": 61204, "in": 5640, "out": 9120, "bytesIn": 9_856_614, "refused": 0},
        {"door": "amqp", "connections": 412, "in": 3180, "out": 3060, "bytesIn": 12_373_196, "refused": 0},
        {"door": "rocketmq", "connections": 186, "in": 2310, "out": 2240, "bytesIn": 6_396_313, "refused": 12},
        {"door": "http", "connections": None, "in": 810, "out": 820, "bytesIn": 2_306_867, "refused": 3},
    ],
    "confirm": {"p50": 2.1, "p99": 7.4},
    "furthest": LAG,
    "lags": [LAG],
    "gauges": {"disk_state": 0},
    "disk": [{"free": 442_000_000_000, "size": 1_500_000_000_000, "isComplete": True}],
    "tier": {"bytes": 9_455_899_999_999, "lagMessages": 0},
    "alarms": [
        {
            "severity": "critical",
            "subject": "Group billing falls behind on orders",
            "text": "3 min 41 s, and growing for 12 min.",
            "since": "2026-11-22T20:29:00Z",
            "link": "#/overview",
        },
        {
            "severity": "warning",
            "subject": "broker-1 r3 is not in the SyncStateSet",
            "text": "1.8 GiB behind. One more loss stops publishing there.",
            "since": "2026-11-22T20:18:31Z",
            "link": "#/cluster",
        },
    ],
    "gateways": [
        {
            "name": f"gw-{number}",
            "connections": 20_871 + number,
            "cpu": 0.4 + number / 100,
            "clockErrorSeconds": 0.0,
            "clockProblem": "",
            "openFiles": {"used": 20_980 + number, "limit": 65_536, "refusedFrom": 65_024},
            "version": "1.8.0",
            "startedAt": "2026-11-20T08:00:00Z",
            "silentSeconds": None,
            "isThis": number == 2,
        }
        for number in (1, 2, 3)
    ],
    "brokers": [
        _broker(0, 17, [_replica(1, "master", 0), _replica(2, "slave", 3788), _replica(3, "slave", 7066)]),
        _broker(
            1,
            42,
            [
                _replica(1, "master", 0),
                _replica(2, "slave", 4636),
                _replica(3, "slave", 1_932_735_283, isInSync=False),
            ],
        ),
    ],
    "controllers": [
        {"controller": 1, "address": "10.0.1.30:9878", "state": "follows", "problem": None},
        {"controller": 2, "address": "10.0.2.30:9878", "state": "leads", "problem": None},
        {"controller": 3, "address": "10.0.3.30:9878", "state": "follows", "problem": None},
    ],
    "nameServers": [{"address": "ns-1:9877", "isAvailable": True}, {"address": "ns-2:9877", "isAvailable": True}],
    "bridges": [BRIDGE],
    "failing": [],
    "counts": {"topics": 10_412, "groups": 318},
}


def history(span: int) -> dict[str, Any]:
    """A history whose lines move, with a gap for all of them."""
    step, length = _POINTS[span]

    def line(height: float, wave: float) -> list[float | None]:
        gap = range(int(length * _GAP[0]), int(length * _GAP[1]))
        return [None if at in gap else round(height + wave * math.sin(at / 9 + height), 2) for at in range(length)]

    rates = {"mqtt": 5640, "amqp": 3180, "rocketmq": 2310, "http": 810}
    series: dict[str, list[float | None]] = {}
    for door, rate in rates.items():
        series[f"in.{door}"] = line(rate, rate / 8)
        series[f"out.{door}"] = line(rate * 1.4, rate / 9)
    series["confirm.p50"] = line(2.1, 0.4)
    series["confirm.p99"] = line(9, 4)
    series["lag.orders/billing"] = [None if at < length / 2 else at - length / 2 for at in range(length)]
    series["lag.orders/nightly-report"] = line(3, 1)
    end = int(NOW.timestamp())
    return {
        "end": end,
        "step": step,
        "series": series,
        "events": [{"at": int(end - span * 0.37), "text": "broker-1: epoch 42"}],
        "answered": OVERVIEW["answered"],
    }


_STREAM: Final = """
(first) => {
  const real = window.fetch;
  const encoder = new TextEncoder();
  window.streams = [];
  window.tell = (overview) => {
    const text = encoder.encode(`event: overview\\ndata: ${JSON.stringify(overview)}\\n\\n`);
    for (const each of window.streams) each.enqueue(text);
  };
  window.lose = () => { for (const each of window.streams.splice(0)) each.close(); };
  window.fetch = async (input, options) => {
    if (!String(input.url ?? input).includes("overview:watch")) return real(input, options);
    window.streamAddress = String(input.url ?? input);
    if (window.refuseStreams) throw new TypeError("no answer");
    const body = new ReadableStream({ start(each) { window.streams.push(each); } });
    if (first) setTimeout(() => window.tell(first), 0);
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
}
"""


ASK_THE_SERVER: Final = object()
"""An answer that the server itself gives."""


def serve_answers(page: Page, answers: dict[str, Any]) -> None:
    """Give a page fixed answers.  `answers` by method and path below `/api/v1/`, such as `GET overview`: a value; a
    tuple of status and value; or a function of the request's JSON that returns either."""
    known: dict[str, Any] = {
        "GET session": SESSION,
        "GET overview": OVERVIEW,
        "DELETE session": (204, None),
        **answers,
    }

    def answer(route: Route) -> None:
        request = route.request
        path = urlsplit(request.url).path.partition("/api/v1/")[2]
        if path == "overview/history" and f"GET {path}" not in known:
            value: Any = history(300 if "span=300" in request.url else 3600)
        elif f"{request.method} {path}" in known:
            value = known[f"{request.method} {path}"]
        else:
            route.fulfill(status=404, json={"status": 404, "title": "Not Found", "detail": "there is nothing here"})
            return
        if callable(value):
            value = value(request.post_data_json)
        if value is ASK_THE_SERVER:
            route.continue_()
            return
        status, shown = value if isinstance(value, tuple) else (200, value)
        route.fulfill(status=status, content_type="application/json", body="" if shown is None else json.dumps(shown))

    page.route("**/api/v1/**", answer)
    page.add_init_script(f"({_STREAM})({json.dumps(known.get('GET overview:watch', OVERVIEW))})")
