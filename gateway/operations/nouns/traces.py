"""Packet traces of MQTT clients or addresses at all gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.mqtt.connections.traces import MAX_ENTRIES, MAX_SECONDS
from entrepot.gateway.operations.local_views.mqtt import required_mqtt
from entrepot.gateway.operations.local_views.mqtt_traces import START, STOP, TRACE, TRACES, serve_mqtt_traces
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import AnsweredShown, OfAll, answered, check_complete
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Body, Like, Part, PlainName, Query, Shown, Time, one_of, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.peers.gathered import Gathered
    from entrepot.gateway.peers.peers import Peers

_TIME: Final = "2026-12-01T08:00:00.000Z"


class TracedPacket(Part, frozen=True):
    """A packet.  `direction`: `in` from the client, `out` to it."""

    time: Time | None
    client: str
    address: str
    direction: Annotated[str, one_of(("in", "out"))]
    type: str
    gateway: str


shown_as(TracedPacket(_TIME, "line-1", "192.0.2.7:40112", "in", "PUBLISH", "gateway-1"))


class TraceHead(Part, frozen=True):
    """One trace of several gateways, without packets.  `seen`: packets since it began."""

    target: str
    until: Time | None
    payloads: bool
    seen: int


shown_as(TraceHead("line-1", _TIME, False, 1))


class PacketTraceShown(TraceHead, Shown, frozen=True):
    """Packets of one client at all gateways; each has the fields of its type besides"""

    packets: list[Annotated[dict[str, Any], Like(TracedPacket)]]
    answered: AnsweredShown


class TraceBody(Body, frozen=True):
    """A trace to begin."""

    seconds: Annotated[int, Meta(ge=1, le=MAX_SECONDS)] = 60
    payloads: bool = False


class PacketsAsked(Query, frozen=True):
    limit: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)] = MAX_ENTRIES


PACKET_TRACES: Final = Noun("traces", "/traces", "trace")


class PacketTraces:
    """The operations of traces, and this gateway's answers to the others."""

    def __init__(self, peers: Peers, mqtt: MqttFrontend | None) -> None:
        self._peers, self._mqtt = peers, mqtt
        serve_mqtt_traces(peers, mqtt)

    @PACKET_TRACES.get(
        "", "listPacketTraces", "List traces of all gateways, running or over, without packets", SUPER_USERS
    )
    async def listed(self) -> OfAll[TraceHead]:
        required_mqtt(self._mqtt)
        found = await self._peers.gather(TRACES)
        by_target: dict[str, list[dict[str, Any]]] = {}
        for answer in found.answers.values():
            for each in answer:
                by_target.setdefault(each["target"], []).append(each)
        heads = [TraceHead(**_head(target, traces)) for target, traces in sorted(by_target.items())]
        return OfAll(heads, answered(found))

    @PACKET_TRACES.put(
        "/{client}",
        "startPacketTrace",
        "Trace a client id or an address at all gateways for a while",
        SUPER_USERS,
        change="trace started",
        example={"seconds": 60, "payloads": False},
    )
    async def start(self, client: PlainName, body: TraceBody, asked: Asked) -> PacketTraceShown:
        required_mqtt(self._mqtt)
        wanted = {"target": client, "seconds": body.seconds, "payloads": body.payloads}
        found = await self._peers.gather(START, wanted)
        if self._peers.name in found.missing:  # here only a limit refuses
            raise EntrepotError(Code.TOO_MANY_REQUESTS, found.missing[self._peers.name])
        how = f"for {body.seconds} s, {'with' if body.payloads else 'without'} payloads"
        asked.tell(f"MQTT client {client}", how)
        return _merged(client, found, 0)

    @PACKET_TRACES.get(
        "/{client}",
        "getPacketTrace",
        "List the packets of a trace at all gateways, the oldest first",
        SUPER_USERS,
    )
    async def show(self, client: PlainName, query: PacketsAsked) -> PacketTraceShown:
        required_mqtt(self._mqtt)
        found = await self._peers.gather(TRACE, {"target": client, "limit": query.limit})
        return _merged(client, found, query.limit)

    @PACKET_TRACES.delete(
        "/{client}", "endPacketTrace", "End and delete a trace at all gateways", SUPER_USERS, change="trace ended"
    )
    async def stop(self, client: PlainName, asked: Asked) -> None:
        required_mqtt(self._mqtt)
        found = await self._peers.gather(STOP, {"target": client})
        if not any(found.answers.values()):
            raise _missing(client, found)
        asked.tell(f"MQTT client {client}")


def _missing(target: str, found: Gathered) -> EntrepotError:
    text = f"{target[:80]!r} is not traced"
    check_complete(found, text)
    return MissingError("trace-not-found", "There is no such trace", text)


def _merged(target: str, found: Gathered, limit: int) -> PacketTraceShown:
    """Return the trace with the packets of all gateways in the order of their times, the last `limit` of them."""
    traces = {name: trace for name, trace in sorted(found.answers.items()) if trace is not None}
    if not traces:
        raise _missing(target, found)
    packets = [{**packet, "gateway": name} for name, trace in traces.items() for packet in trace["packets"]]
    packets.sort(key=lambda packet: str(packet["time"]))
    head = _head(target, list(traces.values()))
    return PacketTraceShown(**head, packets=packets[-limit:] if limit else [], answered=answered(found))


def _head(target: str, traces: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "target": target,
        "until": max(trace["until"] for trace in traces),
        "payloads": any(trace["payloads"] for trace in traces),
        "seen": sum(trace["seen"] for trace in traces),
    }
