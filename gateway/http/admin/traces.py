"""Packet traces of MQTT clients or addresses on this gateway."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.gateway.http.admin.clients import mqtt_of
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, schema_of, time_shape
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import MissingError
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.mqtt.connections.traces import MAX_ENTRIES, MAX_SECONDS, Trace


class TraceBody(Body):
    """A trace to begin."""

    seconds: int = Field(60, ge=1, le=MAX_SECONDS)
    payloads: bool = False


def trace_routes(context: HttpContext) -> Routes:
    """The routes of traces."""
    routes = Routes(["traces"], PREFIX)
    body = {"requestBody": {"content": {"application/json": {"schema": schema_of(TraceBody)}}}}

    @routes.plain.put(
        "/traces/{client}",
        SUPER_USERS,
        change="trace started",
        summary="Trace a client id or an address for a while",
        openapi_extra=body,
    )
    async def put_trace(client: str, request: Request) -> Response:
        wanted = await body_of(request, context, TraceBody)
        traces = mqtt_of(context).traces
        trace = traces.start(name_in_path(client), wanted.seconds, with_payloads=wanted.payloads)
        tell(request, detail=f"for {wanted.seconds} s{' with payloads' if wanted.payloads else ''}")
        return json_answer(_shape(trace, 0))

    @routes.plain.get("/traces/{client}", SUPER_USERS, summary="List the packets of a trace, the oldest first")
    async def get_trace(client: str, limit: int = Query(MAX_ENTRIES, ge=0, le=MAX_ENTRIES)) -> Response:
        target = name_in_path(client)
        trace = mqtt_of(context).traces.get(target)
        if trace is None:
            raise _missing(target)
        return json_answer(_shape(trace, limit))

    @routes.plain.delete(
        "/traces/{client}",
        SUPER_USERS,
        change="trace ended",
        summary="End and delete a trace",
        status_code=NO_CONTENT,
    )
    async def delete_trace(client: str) -> Response:
        target = name_in_path(client)
        if not mqtt_of(context).traces.stop(target):
            raise _missing(target)
        return Response(status_code=NO_CONTENT)

    return routes


def _missing(target: str) -> MissingError:
    return MissingError("trace-not-found", "There is no such trace", f"{target[:80]!r} is not traced")


def _shape(trace: Trace, limit: int) -> dict[str, Any]:
    entries = list(trace.entries)[-limit:] if limit else []
    return {
        "target": trace.target,
        "until": time_shape(trace.until_ms),
        "payloads": trace.with_payloads,
        "seen": trace.seen,
        "packets": [
            {
                "time": time_shape(each.at_ms),
                "client": each.client_id,
                "address": each.peer,
                "direction": each.direction,
                "type": each.type,
                **each.fields,
            }
            for each in entries
        ],
    }
