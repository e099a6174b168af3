"""Packet traces of MQTT clients or addresses at all gateways."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.admin.clients import mqtt_of
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, schema_of
from entrepot.gateway.http.admin.local_views.mqtt_traces import START, STOP, TRACE, TRACES, serve_mqtt_traces
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import check_complete
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.mqtt.connections.traces import MAX_ENTRIES, MAX_SECONDS
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.peers.gathered import Gathered


class TraceBody(Body):
    """A trace to begin."""

    seconds: int = Field(60, ge=1, le=MAX_SECONDS)
    payloads: bool = False


def trace_routes(context: HttpContext) -> Routes:
    """The routes of traces."""
    serve_mqtt_traces(context)
    routes = Routes(["traces"], PREFIX)
    body = {"requestBody": {"content": {"application/json": {"schema": schema_of(TraceBody)}}}}

    @routes.plain.get("/traces", SUPER_USERS, summary="List traces of all gateways, running or over, without packets")
    async def list_traces() -> Response:
        mqtt_of(context)
        found = await context.peers.gather(TRACES)
        by_target: dict[str, list[dict[str, Any]]] = {}
        for answer in found.answers.values():
            for each in answer:
                by_target.setdefault(each["target"], []).append(each)
        rows = [_head(target, traces) for target, traces in sorted(by_target.items())]
        return json_answer({"value": rows, "answered": found.shape()})

    @routes.plain.put(
        "/traces/{client}",
        SUPER_USERS,
        change="trace started",
        summary="Trace a client id or an address at all gateways for a while",
        openapi_extra=body,
    )
    async def put_trace(client: str, request: Request) -> Response:
        wanted = await body_of(request, context, TraceBody)
        mqtt_of(context)
        target = name_in_path(client)
        asked = {"target": target, "seconds": wanted.seconds, "payloads": wanted.payloads}
        found = await context.peers.gather(START, asked)
        if context.peers.name in found.missing:  # here only a limit refuses
            raise EntrepotError(Code.TOO_MANY_REQUESTS, found.missing[context.peers.name])
        how = f"for {wanted.seconds} s, {'with' if wanted.payloads else 'without'} payloads"
        tell(request, f"MQTT client {target}", how)
        return _answer(target, found, 0)

    @routes.plain.get(
        "/traces/{client}", SUPER_USERS, summary="List the packets of a trace at all gateways, the oldest first"
    )
    async def get_trace(client: str, limit: int = Query(MAX_ENTRIES, ge=0, le=MAX_ENTRIES)) -> Response:
        mqtt_of(context)
        target = name_in_path(client)
        return _answer(target, await context.peers.gather(TRACE, {"target": target, "limit": limit}), limit)

    @routes.plain.delete(
        "/traces/{client}",
        SUPER_USERS,
        change="trace ended",
        summary="End and delete a trace at all gateways",
        status_code=NO_CONTENT,
    )
    async def delete_trace(client: str, request: Request) -> Response:
        mqtt_of(context)
        target = name_in_path(client)
        found = await context.peers.gather(STOP, {"target": target})
        if not any(found.answers.values()):
            raise _missing(target, found)
        tell(request, f"MQTT client {target}")
        return Response(status_code=NO_CONTENT)

    return routes


def _missing(target: str, found: Gathered) -> EntrepotError:
    text = f"{target[:80]!r} is not traced"
    check_complete(found, text)
    return MissingError("trace-not-found", "There is no such trace", text)


def _answer(target: str, found: Gathered, limit: int) -> Response:
    """The trace with the packets of all gateways in the order of their times, the last `limit` of them."""
    traces = {name: trace for name, trace in sorted(found.answers.items()) if trace is not None}
    if not traces:
        raise _missing(target, found)
    packets = [{**packet, "gateway": name} for name, trace in traces.items() for packet in trace["packets"]]
    packets.sort(key=lambda packet: str(packet["time"]))
    return json_answer(
        {
            **_head(target, list(traces.values())),
            "packets": packets[-limit:] if limit else [],
            "answered": found.shape(),
        }
    )


def _head(target: str, traces: list[dict[str, Any]]) -> dict[str, Any]:
    """One trace of several gateways, without packets."""
    return {
        "target": target,
        "until": max(trace["until"] for trace in traces),
        "payloads": any(trace["payloads"] for trace in traces),
        "seen": sum(trace["seen"] for trace in traces),
    }
