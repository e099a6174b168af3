"""Overview: the figures of all gateways and brokers as one, as true as what has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from entrepot.domain.background import background
from entrepot.domain.clock import comparison_of, error_seconds
from entrepot.domain.cluster import control_of
from entrepot.domain.descriptors import descriptors
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import is_hidden_topic
from entrepot.domain.pin import Pin
from entrepot.domain.timestamp import to_epoch_ms, to_rfc3339
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.fresh import Fresh
from entrepot.gateway.http.overview.alarms import AlarmTimes, alarms_of
from entrepot.gateway.http.overview.figures import DOORS
from entrepot.gateway.http.overview.history import SPANS
from entrepot.gateway.http.overview.sampling import Sampler
from entrepot.gateway.http.rights import DEFAULT_CLUSTER
from entrepot.gateway.operations.bridges import bridge_of
from entrepot.gateway.operations.brokers import broker_of
from entrepot.gateway.operations.controllers import controllers_of
from entrepot.gateway.operations.gateways import gateways_of
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.version import own_version

FRESH_SECONDS: Final = 2.0
"""Age up to which an overview is shown to all who ask."""
STORE_SECONDS: Final = 2.0
"""Longest wait for the brokers' state."""
FIGURES: Final = "overview"
HISTORY: Final = "overview-history"
_UNKNOWN: Final = dict.fromkeys(("unsettled", "waiting", "unread", "keyValues"))
_SUMS: Final = ("connections", "in", "out", "bytesIn", "refused")
_Row = dict[str, Any]
_Told = TypeVar("_Told")


class Overview:
    """The overview, made at most once in `FRESH_SECONDS` for all who watch it."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self.sampler = Sampler(context)
        self._alarms = AlarmTimes()
        self._seen: list[_Row] = []
        """Brokers as they were last told."""
        self._made = Fresh(self._make, FRESH_SECONDS)
        context.peers.serve(FIGURES, self._own_figures)
        context.peers.serve(HISTORY, self._own_history)

    async def get(self) -> _Row:
        """The present overview as JSON."""
        return await self._made.get()

    async def history(self, span: int) -> _Row:
        """The history of all gateways as JSON: sums of rates, and the cluster's figures."""
        gathered = await self._context.peers.gather(HISTORY, {"span": span})
        end = max((answer["end"] for answer in gathered.answers.values()), default=0)
        series = _joined(gathered.answers.values(), end, SPANS[span])
        events = _elections(await self._brokers(), end - span)
        return {"end": end, "step": SPANS[span], "series": series, "events": events, "answered": gathered.shape()}

    # -- this gateway's part -------------------------------------------------------------------------------------

    async def _own_figures(self, arguments: _Row) -> _Row:
        bridges = [msgspec.to_builtins(bridge_of(each)) for each in self._context.bridges()]
        own: _Row = {"bridges": bridges, "failing": background().failing, "openFiles": descriptors().figures()}
        own["clockErrorSeconds"] = round(error_seconds(self._context.clock), 3)
        own["clockProblem"] = comparison_of(self._context.clock).problem
        return {**self.sampler.shape(), **own}

    async def _own_history(self, arguments: _Row) -> _Row:
        span = arguments["span"]
        step = SPANS[span]
        end = (self._context.clock.now_ms() // 1000) // step * step - step  # the step under way has no value yet
        return {"end": end, "series": self.sampler.history.read(span, end)}

    # -- together ------------------------------------------------------------------------------------------------

    async def _make(self) -> _Row:
        context = self._context
        gathered, brokers, controllers, gauges, pins = await asyncio.gather(
            context.peers.gather(FIGURES),
            self._brokers(),
            _in_time(controllers_of(context.store), []),
            _in_time(context.store.condition.gauges(), {}),
            _in_time(context.store.condition.pins(), []),
        )
        control = control_of(context.store)
        name_servers = {} if control is None else control.name_servers()
        lags = _lags(gathered)
        overview: _Row = {
            "cluster": context.settings.cluster.name or DEFAULT_CLUSTER,
            "gateway": context.peers.name,
            "version": own_version(),
            "time": to_rfc3339(context.clock.now_ms()),
            "answered": gathered.shape(),
            "doors": _doors(gathered),
            "confirm": _of_cluster(gathered, "confirm") or {"p50": None, "p99": None},
            "furthest": _furthest(lags),
            "lags": lags,
            "gauges": gauges,
            "gateways": _gateways(context, gathered),
            "brokers": brokers,
            "controllers": msgspec.to_builtins(controllers),
            "nameServers": [{"address": address, "isAvailable": up} for address, up in name_servers.items()],
            "bridges": _bridges(gathered),
            "failing": _failing(gathered),
            "counts": self._counts(),
        }
        return {**overview, **self._readings(overview, lags, pins)}

    def _readings(self, overview: _Row, lags: list[_Row] | None, pins: list[Pin]) -> _Row:
        """Alarms, disk and tier, read from the rest."""
        context, gauges = self._context, overview["gauges"]
        alarms = alarms_of(overview, lags or (), context.store.condition.damage, pins)
        is_complete = all(each["isAvailable"] for each in overview["brokers"])
        disk = []
        if gauges.get("disk_total_bytes"):  # of all brokers: each tells its own in the metrics
            disk = [{"free": gauges["disk_free_bytes"], "size": gauges["disk_total_bytes"], "isComplete": is_complete}]
        tier = None
        if "tier_bytes" in gauges:
            tier = {"bytes": gauges["tier_bytes"], "lagMessages": gauges["tier_lag_messages"]}
        return {"alarms": self._alarms.shapes(alarms, context.clock.now_ms()), "disk": disk, "tier": tier}

    async def _brokers(self) -> list[_Row]:
        control = control_of(self._context.store)
        if control is None:
            return []
        try:
            async with asyncio.timeout(STORE_SECONDS):
                self._seen = [msgspec.to_builtins(broker_of(each)) for each in await control.brokers()]
        except (EntrepotError, TimeoutError):
            text = f"no answer within {STORE_SECONDS:g} s"
            return [{**each, **_UNKNOWN, "isAvailable": False, "problem": text} for each in self._seen]
        return self._seen

    def _counts(self) -> dict[str, int]:
        topology, context = self._context.store.topology, self._context
        return {
            "topics": sum(not is_hidden_topic(each.name) for each in topology.topics()),
            "groups": len(topology.groups()),
            "namespaces": len(topology.namespaces()),
            "retained": context.retained.count,
        }


async def _in_time(asking: Awaitable[_Told], otherwise: _Told) -> _Told:
    """An answer of the store in time, or something else."""
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return await asking
    except (EntrepotError, TimeoutError):
        return otherwise


def _doors(gathered: Gathered) -> list[_Row]:
    """Sums over the gateways that answered, by door; None where none of them knows."""
    found = []
    for door in DOORS:
        parts = [answer["doors"][door] for answer in gathered.answers.values() if door in answer["doors"]]
        if parts:
            found.append({"door": door, **{name: _sum(part[name] for part in parts) for name in _SUMS}})
    return found


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None


def _of_cluster(gathered: Gathered, name: str) -> Any:
    """A figure of the cluster, by the gateway that takes them; None where it is not known."""
    return next((answer["cluster"][name] for answer in gathered.answers.values() if answer["cluster"]), None)


def _lags(gathered: Gathered) -> list[_Row] | None:
    found: list[_Row] | None = _of_cluster(gathered, "lags")
    return found


def _furthest(lags: list[_Row] | None) -> _Row | None:
    return max(lags or (), key=lambda each: (each["seconds"] or 0.0, int(each["messages"])), default=None)


def _gateways(context: HttpContext, gathered: Gathered) -> list[_Row]:
    rows = []
    for row in map(msgspec.to_builtins, gateways_of(context.peers)):
        told = gathered.answers.get(row["name"])
        if told is None:
            unknown = ("connections", "cpu", "openFiles", "clockErrorSeconds", "clockProblem")
            rows.append({**row, **dict.fromkeys(unknown)})
            continue
        connections = sum(each["connections"] for each in told["doors"].values())
        files = told.get("openFiles") or None  # earlier versions do not tell
        of_clock = {key: told.get(key) for key in ("clockErrorSeconds", "clockProblem")}
        figures = {"cpu": told["cpu"], "openFiles": files, **of_clock}
        rows.append({**row, "connections": connections, **figures})
    return rows


def _bridges(gathered: Gathered) -> list[_Row]:
    """Each bridge once, as the gateway that runs it tells; else as any does."""
    found: dict[str, _Row] = {}
    for answer in gathered.answers.values():
        for bridge in answer["bridges"]:
            if bridge["isHere"] or bridge["name"] not in found:
                found[bridge["name"]] = bridge
    return [found[name] for name in sorted(found)]


def _failing(gathered: Gathered) -> list[_Row]:
    """Background work that had an error of the program just now, of each gateway."""
    return [
        {"gateway": name, "work": work, "reason": reason}
        for name, answer in gathered.answers.items()
        for work, reason in answer.get("failing", {}).items()  # earlier versions do not tell
    ]


def _joined(answers: Iterable[_Row], end: int, step: int) -> dict[str, list[float | None]]:
    """Sum the series of all gateways, step by step; a step that nobody knows is a gap."""
    found: dict[str, list[float | None]] = {}
    for answer in answers:
        late = (end - answer["end"]) // step
        for name, values in answer["series"].items():
            shifted = [*values[late:], *[None] * late] if late else values
            known = found.get(name)
            found[name] = shifted if known is None else [_sum(pair) for pair in zip(known, shifted, strict=True)]
    return found


def _elections(brokers: list[_Row], since: int) -> list[_Row]:
    """Elections since a time in epoch seconds, as events of a chart."""
    events = []
    for each in brokers:
        election = each["election"]
        at_ms = None if election is None or election["time"] is None else to_epoch_ms(election["time"])
        if at_ms is not None and at_ms >= since * 1000:
            events.append({"at": at_ms // 1000, "text": f"{each['name']}: epoch {election['epoch']}"})
    return events
