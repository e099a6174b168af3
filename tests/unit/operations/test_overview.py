"""The overview over gateways of several versions: what one tells oddly must not hide what the others tell."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.bridge.status import BridgeCounters, BridgeState, BridgeStatus
from entrepot.gateway.door.shown import DoorFigures
from entrepot.gateway.operations.overview.noun import HistoryAsked, OverviewAsked, Overviews
from entrepot.gateway.operations.overview.overview import FIGURES, HISTORY, Overview
from entrepot.gateway.operations.row.gathered import OTHER_VERSION
from entrepot.gateway.operations.row.streams import Streams
from entrepot.gateway.peers.gathered import Gathered
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS

RATES = {"connections": 3, "in": 1.5, "out": 2.0, "bytesIn": None, "refused": 0.0}
LAG = {"namespace": "default", "topic": "t", "group": "g", "messages": "7", "seconds": 300.0, "isComplete": True}
WHOLE = {
    "doors": {"http": RATES},
    "cpu": 0.25,
    "cluster": {"confirm": {"p50": 1.0, "p99": 2.0}, "lags": [LAG]},
    "bridges": [],
    "failing": {"expiry": "KeyError: 'q'"},
    "openFiles": {"used": 10, "limit": 100, "refusedFrom": 90},
    "clockErrorSeconds": 0.0,
    "clockProblem": "",
}


class Peers:
    """This gateway is `a`; the others tell what they are given."""

    name, own_id, is_first = "a", "1", True

    @property
    def members(self) -> Peers:
        return self

    def __init__(self, **others: Any) -> None:
        self.own = SimpleNamespace(name="a", version="2", started_ms=0)
        self._others, self.views = others, dict[str, Any]()

    def serve(self, view: str, answer: Any) -> None:
        self.views[view] = answer

    def others(self) -> list[tuple[str, Any]]:
        return [(name, SimpleNamespace(name=name, version="1", started_ms=0)) for name in self._others]

    def silent_ms(self, peer_id: str) -> int:
        return 0

    async def gather(self, view: str, arguments: Any = None) -> Gathered:
        own = await self.views[view](dict(arguments or {}))
        return Gathered({"a": orjson.loads(orjson.dumps(own)), **self._others})


class World:
    """One gateway with a bridge, and the others' answers."""

    def __init__(self, **others: Any) -> None:
        self.clock, self.published = ManualClock(), 0
        self.installed: dict[str, DoorFigures] = {}
        self.store, self.peers = MemoryStore(self.clock), Peers(**others)
        bridge = BridgeStatus("plant", "mqtt://p", 5, BridgeState.BACK_OFF, 0, "", False, "refused", BridgeCounters())
        self.overview = Overview(
            self.store, cast("Any", self.peers), self.clock, self.figures, lambda: [bridge], lambda: 4, "plant"
        )
        self.streams = Streams(1)
        self.operations = Overviews(self.overview, self.streams)

    def figures(self) -> dict[str, DoorFigures]:
        return {**self.installed, "http": DoorFigures(2, self.published, 0, 0)}


async def test_figures_of_all_gateways_are_one() -> None:
    world = World(b=WHOLE)
    shown = msgspec.to_builtins(await world.operations.show())
    [door] = shown["doors"]
    assert door == {"door": "http", "connections": 5, "in": 1.5, "out": 2.0, "bytesIn": None, "refused": 0.0}
    assert isinstance(door["connections"], int)
    assert (shown["confirm"], shown["lags"], shown["furthest"]) == ({"p50": 1.0, "p99": 2.0}, [LAG], LAG)
    assert [(each["name"], each["connections"], each["cpu"]) for each in shown["gateways"]] == [
        ("a", 2, None), ("b", 3, 0.25),
    ]  # fmt: skip
    assert shown["failing"] == [{"gateway": "b", "work": "expiry", "reason": "KeyError: 'q'"}]
    assert {each["subject"] for each in shown["alarms"]} == {
        "Group g falls behind on t",
        "Bridge plant is not connected",
        "Background work of gateway b fails: expiry",
    }
    assert (shown["counts"]["retained"], shown["cluster"], shown["disk"], shown["tier"]) == (4, "plant", [], None)
    assert (shown["answered"]["asked"], shown["answered"]["missing"]) == (2, [])


async def test_a_door_that_counts_its_connections_alone_has_a_line_and_a_series() -> None:
    world = World(b=WHOLE)
    world.installed["lines"] = DoorFigures(4)
    for _ in range(3):
        world.clock.advance(1000)
        await world.overview.sampler.take_second()
    shown = msgspec.to_builtins(await world.operations.show())
    assert [each["door"] for each in shown["doors"]] == ["lines", "http"]
    assert shown["doors"][0] == {
        "door": "lines", "connections": 4, "in": None, "out": None, "bytesIn": None, "refused": None,
    }  # fmt: skip
    assert shown["gateways"][0]["connections"] == 6
    series = (await world.operations.history(HistoryAsked(300))).series
    assert 4 in series["connections.lines"]
    assert "in.lines" not in series


@pytest.mark.parametrize("lacking", [*WHOLE, "all"])
async def test_what_another_version_does_not_tell_is_not_known(lacking: str) -> None:
    told = {name: value for name, value in WHOLE.items() if lacking not in (name, "all")}
    shown = await World(b={**told, "added": 1}).operations.show()
    assert shown.answered.missing == []
    [_, row] = shown.gateways
    assert (row.cpu is None) == (lacking in ("cpu", "all"))
    assert (row.open_files is None) == (lacking in ("openFiles", "all"))
    assert (shown.lags is None) == (lacking in ("cluster", "all"))


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "x",
        {**WHOLE, "doors": None},
        {**WHOLE, "doors": {"http": {"connections": "many"}}},
        {**WHOLE, "cluster": {"lags": [{"topic": "t"}]}},
        {**WHOLE, "bridges": [{"name": "plant"}]},
        {**WHOLE, "openFiles": {"used": 1}},
    ],
)
async def test_what_another_version_tells_oddly_hides_nothing(odd: Any) -> None:
    shown = await World(b=odd, c=WHOLE).operations.show()
    assert [(each.name, each.reason) for each in shown.answered.missing] == [("b", OTHER_VERSION)]
    assert [(each.name, each.connections) for each in shown.gateways] == [("a", 2), ("b", None), ("c", 3)]
    assert shown.doors[0].connections == 5
    assert f"Gateway b does not answer: {OTHER_VERSION}" in [f"{each.subject}: {each.text}" for each in shown.alarms]


async def test_open_files_without_a_limit_and_counts_that_are_none_are_not_known() -> None:
    lag = {**LAG, "messages": "many"}
    shown = await World(b={**WHOLE, "openFiles": {}, "cluster": {"lags": [lag]}}).operations.show()
    assert shown.gateways[1].open_files is None
    assert [each.text for each in shown.alarms if "falls behind" in each.subject] == [
        "0 messages, the oldest 5 min old"
    ]


async def test_an_alarm_holds_since_it_began() -> None:
    world = World(b=WHOLE)
    began = {each.since for each in (await world.overview._make()).alarms}
    world.clock.advance(5000)
    assert {each.since for each in (await world.overview._make()).alarms} == began


async def test_histories_are_summed_step_by_step() -> None:
    world = World()
    end = (await world.peers.views[HISTORY]({"span": 300}))["end"]
    odd: list[Any] = [
        {"end": "x"},
        {"end": 0, "series": {"in.http": [9.0]}},
        {"end": end, "series": {"x": [1.0]}},
        None,
    ]
    others = {f"o{number}": each for number, each in enumerate(odd)}
    late = {"end": end - 2, "series": {"in.http": [1.0] * 300}}
    world.peers._others = {"b": {"end": end, "series": {"in.http": [None] * 298 + [2.0, 4.0]}}, "c": late, **others}
    shown = await world.operations.history(HistoryAsked(300))
    assert (shown.end, shown.step, [each.name for each in shown.answered.missing]) == (end, 1, ["o0", "o3"])
    assert shown.series["in.http"][-4:] == [1.0, 1.0, 2.0, 4.0], "who is late leaves gaps"
    assert shown.series["x"] == [None] * 299 + [1.0]
    assert {len(values) for values in shown.series.values()} == {300}


async def test_other_spans_are_refused() -> None:
    with pytest.raises(EntrepotError, match="span: must be 300 or 3600 seconds"):
        await World().operations.history(HistoryAsked(60))


async def test_rates_are_those_between_two_samples() -> None:
    world = World()
    await world.overview.sampler.take_second()
    world.clock.advance(2000)
    world.published = 10
    await world.overview.sampler.take_second()
    told = await world.peers.views[FIGURES]({})
    assert told["doors"]["http"] == {"connections": 2, "in": 5.0, "out": 0.0, "bytesIn": None, "refused": 0.0}


async def test_a_stream_asks_again_whether_its_reader_may_see() -> None:
    world, request, answers = World(), asked(), [True, True, False]

    async def may_go_on() -> bool:
        return answers.pop(0)

    request.may_go_on = may_go_on
    pieces = await world.operations.watch(request, OverviewAsked(every=0))
    with pytest.raises(EntrepotError) as refused:
        await world.operations.watch(request, OverviewAsked())
    assert refused.value.code is Code.TOO_MANY_REQUESTS
    async with asyncio.timeout(PATIENCE_SECONDS):
        found = [piece async for piece in pieces.pieces]
    assert (found[0], len(found)) == (b"retry: 2000\n\n", 3)
    name, _, data = found[1].partition(b"\ndata: ")
    assert (name, orjson.loads(data)["gateway"]) == (b"event: overview", "a")
    assert (world.streams.count, world.streams.open) == (0, set())


async def test_a_stream_ends_with_the_server() -> None:
    world, request = World(), asked()

    async def may_go_on() -> bool:
        return True

    request.may_go_on = may_go_on
    pieces = (await world.operations.watch(request, OverviewAsked(every=60))).pieces
    assert [await anext(pieces), (await anext(pieces))[:15]] == [b"retry: 2000\n\n", b"event: overview"]
    world.streams.end()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [piece async for piece in pieces] == []
