"""Overview: the figures of all gateways and brokers as one, as true as what has answered.

ADR 55: questions to all gateways. Invariant: a gateway that did not answer is named with the reason, never left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from entrepot.domain.background import background
from entrepot.domain.clock import comparison_of, error_seconds
from entrepot.domain.descriptors import descriptors
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import is_hidden_topic
from entrepot.domain.ports.cluster import control_of
from entrepot.domain.timestamp import to_epoch_ms
from entrepot.gateway.operations.nouns.bridges import BridgeShown, bridge_of
from entrepot.gateway.operations.nouns.brokers import BrokerShown, NameServerShape, broker_of
from entrepot.gateway.operations.nouns.controllers import controllers_of
from entrepot.gateway.operations.nouns.gateways import gateways_of
from entrepot.gateway.operations.overview.alarms import AlarmTimes, alarms_of
from entrepot.gateway.operations.overview.history import SPANS
from entrepot.gateway.operations.overview.sampling import Sampler
from entrepot.gateway.operations.overview.shapes import (
    ClusterOverviewShown,
    ConfirmTimes,
    DiskShown,
    DoorShown,
    Failing,
    FiguresOfCluster,
    FiguresOfGateway,
    GatewayNow,
    HistoryEvent,
    HistoryOfGateway,
    HistoryShown,
    LagShown,
    OpenFiles,
    TierShown,
)
from entrepot.gateway.operations.row.gathered import OTHER_VERSION, answered
from entrepot.gateway.operations.row.times import time_text
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.work.fresh import Fresh

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.door.shown import DoorFigures
    from entrepot.gateway.peers.peers import Peers

FRESH_SECONDS: Final = 2.0
"""Age up to which an overview is shown to all who ask."""
STORE_SECONDS: Final = 2.0
"""Longest wait for the brokers' state."""
FIGURES: Final = "overview"
HISTORY: Final = "overview-history"
_SUMS: Final = ("connections", "in_", "out", "bytes_in", "refused")
_Told = TypeVar("_Told")


class Overview:
    """The overview, made at most once in `FRESH_SECONDS` for all who watch it.  `doors`: figures of those of this
    gateway, by protocol.  `cluster`: its name.  `retained`: the number of retained messages."""

    def __init__(
        self,
        store: Store,
        peers: Peers,
        clock: Clock,
        doors: Callable[[], Mapping[str, DoorFigures]],
        bridges: Callable[[], Sequence[BridgeStatus]],
        retained: Callable[[], int],
        cluster: str,
    ) -> None:
        self._store, self._peers, self._clock = store, peers, clock
        self._bridges, self._retained, self._cluster = bridges, retained, cluster
        self.sampler = Sampler(store, peers, clock, doors)
        self._alarms = AlarmTimes()
        self._seen: list[BrokerShown] = []
        """Brokers as they were last told."""
        self._made = Fresh(self._make, FRESH_SECONDS)
        peers.serve(FIGURES, self._own_figures)
        peers.serve(HISTORY, self._own_history)

    async def get(self) -> ClusterOverviewShown:
        """Return the present overview."""
        return await self._made.get()

    async def history(self, span: int) -> HistoryShown:
        """Return the history of all gateways: sums of rates, and the cluster's figures."""
        found = _readable(await self._peers.gather(HISTORY, {"span": span}), HistoryOfGateway)
        end = max((answer.end for answer in found.answers.values()), default=0)
        series = _joined(found.answers.values(), end, span)
        return HistoryShown(end, SPANS[span], series, _elections(await self._brokers(), end - span), answered(found))

    # -- this gateway's part -------------------------------------------------------------------------------------

    async def _own_figures(self, arguments: dict[str, Any]) -> Any:
        sampler, files = self.sampler, descriptors().figures()
        return msgspec.to_builtins(
            FiguresOfGateway(
                doors=sampler.doors(),
                cpu=sampler.cpu,
                cluster=sampler.of_cluster(),
                bridges=[bridge_of(each) for each in self._bridges()],
                failing=background().failing,
                open_files=msgspec.convert(files, OpenFiles) if files else None,
                clock_error_seconds=round(error_seconds(self._clock), 3),
                clock_problem=comparison_of(self._clock).problem,
            )
        )

    async def _own_history(self, arguments: dict[str, Any]) -> Any:
        span = arguments["span"]
        step = SPANS[span]
        end = (self._clock.now_ms() // 1000) // step * step - step  # the step under way has no value yet
        return {"end": end, "series": self.sampler.history.read(span, end)}

    # -- together ------------------------------------------------------------------------------------------------

    async def _make(self) -> ClusterOverviewShown:
        condition = self._store.condition
        gathered, brokers, controllers, gauges, pins = await asyncio.gather(
            self._peers.gather(FIGURES),
            self._brokers(),
            _in_time(controllers_of(self._store), []),
            _in_time(condition.gauges(), {}),
            _in_time(condition.pins(), []),
        )
        control, found = control_of(self._store), _readable(gathered, FiguresOfGateway)
        name_servers = {} if control is None else control.name_servers()
        of_cluster = _of_cluster(found)
        lags = None if of_cluster is None else of_cluster.lags
        now_ms = self._clock.now_ms()
        overview = ClusterOverviewShown(
            cluster=self._cluster,
            gateway=self._peers.name,
            version=own_version(),
            time=time_text(now_ms),
            answered=answered(found),
            doors=_doors(found),
            confirm=ConfirmTimes() if of_cluster is None else of_cluster.confirm,
            furthest=_furthest(lags),
            lags=lags,
            gauges=gauges,
            gateways=_gateways(self._peers, found),
            brokers=brokers,
            controllers=controllers,
            name_servers=[NameServerShape(*each) for each in name_servers.items()],
            bridges=_bridges(found),
            failing=_failing(found),
            counts=self._counts(),
            alarms=[],
            disk=_disk(gauges, brokers),
            tier=_tier(gauges),
        )
        alarms = self._alarms.shown(alarms_of(overview, condition.damage, pins), now_ms)
        return msgspec.structs.replace(overview, alarms=alarms)

    async def _brokers(self) -> list[BrokerShown]:
        control = control_of(self._store)
        if control is None:
            return []
        try:
            async with asyncio.timeout(STORE_SECONDS):
                self._seen = [broker_of(each) for each in await control.brokers()]
        except (EntrepotError, TimeoutError):
            return [_away(each) for each in self._seen]
        return self._seen

    def _counts(self) -> dict[str, int]:
        topology = self._store.topology
        return {
            "topics": sum(not is_hidden_topic(each.name) for each in topology.topics()),
            "groups": len(topology.groups()),
            "namespaces": len(topology.namespaces()),
            "retained": self._retained(),
        }


async def _in_time(asking: Awaitable[_Told], otherwise: _Told) -> _Told:
    """Return an answer of the store in time, or something else."""
    try:
        async with asyncio.timeout(STORE_SECONDS):
            return await asking
    except (EntrepotError, TimeoutError):
        return otherwise


def _readable(found: Gathered, kind: type) -> Gathered:
    """Return the answers as structs.  A gateway whose answer is none counts as missing: it is of another version, and
    must not hide what the others tell."""
    answers, missing = dict[str, Any](), dict(found.missing)
    for name, answer in found.answers.items():
        try:
            known = {**answer, "openFiles": answer.get("openFiles") or None}  # without a limit, some tell an empty one
            answers[name] = msgspec.convert(known, kind)
        except (msgspec.ValidationError, AttributeError, TypeError):
            missing[name] = OTHER_VERSION
    return Gathered(answers, missing)


def _away(broker: BrokerShown) -> BrokerShown:
    return msgspec.structs.replace(
        broker,
        unsettled=None,
        waiting=None,
        unread=None,
        key_values=None,
        is_available=False,
        problem=f"no answer within {STORE_SECONDS:g} s",
    )


def _doors(found: Gathered) -> list[DoorShown]:
    """Sums over the gateways that answered, by door in the order of the first one; None where none of them knows."""
    answers: list[FiguresOfGateway] = list(found.answers.values())
    doors = []
    for door in dict.fromkeys(door for answer in answers for door in answer.doors):
        parts = [answer.doors[door] for answer in answers if door in answer.doors]
        doors.append(DoorShown(*(_sum(getattr(part, name) for part in parts) for name in _SUMS), door=door))
    return doors


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if known else None


def _of_cluster(found: Gathered) -> FiguresOfCluster | None:
    """The figures of the cluster, by the gateway that takes them; None where they are not known."""
    return next((answer.cluster for answer in found.answers.values() if answer.cluster is not None), None)


def _furthest(lags: list[LagShown] | None) -> LagShown | None:
    return max(lags or (), key=lambda each: (each.seconds or 0.0, each.count), default=None)


def _gateways(peers: Peers, found: Gathered) -> list[GatewayNow]:
    rows = []
    for row in gateways_of(peers):
        own, told = msgspec.structs.asdict(row), found.answers.get(row.name)
        if told is None:
            rows.append(GatewayNow(**own))
            continue
        rows.append(
            GatewayNow(
                **own,
                connections=sum(each.connections or 0 for each in told.doors.values()),
                cpu=told.cpu,
                open_files=told.open_files,
                clock_error_seconds=told.clock_error_seconds,
                clock_problem=told.clock_problem,
            )
        )
    return rows


def _bridges(found: Gathered) -> list[BridgeShown]:
    """Each bridge once, as the gateway that runs it tells; else as any does."""
    by_name: dict[str, BridgeShown] = {}
    for answer in found.answers.values():
        for bridge in answer.bridges:
            if bridge.is_here or bridge.name not in by_name:
                by_name[bridge.name] = bridge
    return [by_name[name] for name in sorted(by_name)]


def _failing(found: Gathered) -> list[Failing]:
    return [
        Failing(name, work, reason) for name, answer in found.answers.items() for work, reason in answer.failing.items()
    ]


def _disk(gauges: dict[str, float], brokers: list[BrokerShown]) -> list[DiskShown]:
    """The disks of all brokers as one: each tells its own in the metrics."""
    if not (gauges.get("disk_total_bytes") and "disk_free_bytes" in gauges):
        return []
    is_complete = all(each.is_available for each in brokers)
    return [DiskShown(gauges["disk_free_bytes"], gauges["disk_total_bytes"], is_complete)]


def _tier(gauges: dict[str, float]) -> TierShown | None:
    if not gauges.keys() >= {"tier_bytes", "tier_lag_messages"}:
        return None
    return TierShown(gauges["tier_bytes"], gauges["tier_lag_messages"])


def _joined(answers: Iterable[HistoryOfGateway], end: int, span: int) -> dict[str, list[float | None]]:
    """Sum the series of all gateways, step by step; a step that nobody knows is a gap."""
    count, found = span // SPANS[span], dict[str, list[float | None]]()
    for answer in answers:
        late = min((end - answer.end) // SPANS[span], count)
        for name, values in answer.series.items():
            shifted = [*[None] * count, *values, *[None] * late][-count:]
            known = found.get(name)
            found[name] = shifted if known is None else [_sum(pair) for pair in zip(known, shifted, strict=True)]
    return found


def _elections(brokers: list[BrokerShown], since: int) -> list[HistoryEvent]:
    """Elections since a time in epoch seconds, as events of a chart."""
    events = []
    for each in brokers:
        election = each.election
        at_ms = None if election is None or election.time is None else to_epoch_ms(election.time)
        if election is not None and at_ms is not None and at_ms >= since * 1000:
            events.append(HistoryEvent(at_ms // 1000, f"{each.name}: epoch {election.epoch}"))
    return events
