"""This gateway's packet traces: list, begin, show, end."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.mqtt.connections.traces import Trace
from entrepot.gateway.operations.times import time_shape

TRACES: Final = "mqtt-traces"
START: Final = "mqtt-trace-start"
TRACE: Final = "mqtt-trace"
STOP: Final = "mqtt-trace-stop"


def serve_mqtt_traces(context: HttpContext) -> None:
    """Register the views.  Those of a gateway without MQTT answer null."""

    async def traces(asked: dict[str, Any]) -> Any:
        return [] if context.mqtt is None else [_head(each) for each in context.mqtt.traces.all()]

    async def start(asked: dict[str, Any]) -> Any:
        if context.mqtt is None:
            return None
        with_payloads = asked["payloads"]
        trace = context.mqtt.traces.start(asked["target"], asked["seconds"], with_payloads=with_payloads)
        return _shape(trace, 0)

    async def show(asked: dict[str, Any]) -> Any:
        trace = None if context.mqtt is None else context.mqtt.traces.get(asked["target"])
        return None if trace is None else _shape(trace, asked["limit"])

    async def stop(asked: dict[str, Any]) -> Any:
        return context.mqtt is not None and context.mqtt.traces.stop(asked["target"])

    context.peers.serve(TRACES, traces)
    context.peers.serve(START, start)
    context.peers.serve(TRACE, show)
    context.peers.serve(STOP, stop)


def _head(trace: Trace) -> dict[str, Any]:
    return {
        "target": trace.target,
        "until": time_shape(trace.until_ms),
        "payloads": trace.with_payloads,
        "seen": trace.seen,
    }


def _shape(trace: Trace, limit: int) -> dict[str, Any]:
    entries = list(trace.entries)[-limit:] if limit else []
    return {
        **_head(trace),
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
