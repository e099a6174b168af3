"""This gateway's packet traces: list, begin, show, end."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.mqtt.connections.traces import Trace
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.operations.row.times import time_shape
from entrepot.gateway.peers.peers import Peers

TRACES: Final = "mqtt-traces"
START: Final = "mqtt-trace-start"
TRACE: Final = "mqtt-trace"
STOP: Final = "mqtt-trace-stop"


def serve_mqtt_traces(peers: Peers, mqtt: MqttFrontend | None) -> None:
    """Register the views.  Those of a gateway without MQTT answer null."""

    async def traces(asked: dict[str, Any]) -> Any:
        return [] if mqtt is None else [_head(each) for each in mqtt.traces.all()]

    async def start(asked: dict[str, Any]) -> Any:
        if mqtt is None:
            return None
        with_payloads = asked["payloads"]
        trace = mqtt.traces.start(asked["target"], asked["seconds"], with_payloads=with_payloads)
        return _shape(trace, 0)

    async def show(asked: dict[str, Any]) -> Any:
        trace = None if mqtt is None else mqtt.traces.get(asked["target"])
        return None if trace is None else _shape(trace, asked["limit"])

    async def stop(asked: dict[str, Any]) -> Any:
        return mqtt is not None and mqtt.traces.stop(asked["target"])

    peers.serve(TRACES, traces)
    peers.serve(START, start)
    peers.serve(TRACE, show)
    peers.serve(STOP, stop)


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
