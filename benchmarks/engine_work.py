"""The workloads of the benchmark `engine`: one for each door's way in and out, with the same load at every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import uvloop

from benchmarks import http_consuming
from benchmarks.amqp import W8
from benchmarks.http import CONNECTIONS, EVENTS_IN_BATCH, in_batches
from benchmarks.mqtt_workloads import chosen
from benchmarks.processes import Server, cpu_seconds, gwload
from benchmarks.rocketmq_client import CALLERS, RECEIVED, measured, receives, sends
from benchmarks.rocketmq_client import Work as Calls

PULLED_A_SECOND: Final = 5_000
"""Events that are there to be pulled, for each second of a run."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Messages per second, and per CPU-second of the gateway."""

    rate: float
    per_cpu: float


Work = Callable[[Server, float, str], Figures]
"""Runs for some seconds; the text is a name that no other run has."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A load on one door; `what` names it in the report."""

    name: str
    what: str
    run: Work


def _loaded(door: str, counted: str, *arguments: str) -> Work:
    """A run of gwload, whose `counted` messages are "pub" or "del"; `{}` in an argument is the run's own name."""

    def run(server: Server, seconds: float, fresh: str) -> Figures:
        named = [each.replace("{}", fresh) for each in arguments]
        found = gwload(server, door, *named, "--duration", f"{seconds:g}")
        return Figures(found[f"{counted}_rate"], found[f"{counted}_per_cpu_s"])

    return run


def _published(server: Server, seconds: float, fresh: str) -> Figures:
    return Figures(*uvloop.run(in_batches(server, seconds)))


def _pulled(at_once: int) -> Work:
    def run(server: Server, seconds: float, fresh: str) -> Figures:
        count = int(PULLED_A_SECOND * seconds)
        return Figures(*uvloop.run(http_consuming.pulled(server, count, fresh, at_once)))

    return run


def _called(work: Calls, *, fill: bool = False) -> Work:
    def run(server: Server, seconds: float, fresh: str) -> Figures:
        port, cpu = server.ports["grpc"], partial(cpu_seconds, server.pid)
        moved = asyncio.run(measured(port, cpu, work, seconds, fill=fill, topic=fresh))
        return Figures(moved.rate, moved.per_cpu)

    return run


def _arguments(name: str) -> tuple[str, ...]:
    [workload] = chosen(name)
    return workload.arguments


_AMQP: Final = ("--window", "200", "--warmup", "2000", "--queue", "{}")
_W7: Final = ("--pub-proto", "amqp", "--sub-proto", "none", "--pubs", "4", "--size", "200")
_CALLS: Final = f"RocketMQ gRPC, {CALLERS} calls at a time"
WORKLOADS: Final = (
    Workload("mqtt", "MQTT QoS 1 publish, 100 publishers", _loaded("mqtt", "pub", *_arguments("W1"))),
    Workload("fan-in", "MQTT QoS 1 to 4 plain subscribers", _loaded("mqtt", "del", *_arguments("W2n"))),
    Workload("fan-out", "MQTT QoS 1 to 200 plain subscribers", _loaded("mqtt", "del", *_arguments("W4q1"))),
    Workload("amqp", "AMQP publish and confirm, 4 publishers", _loaded("amqp", "pub", *_W7, *_AMQP)),
    Workload(
        "consume",
        "AMQP publish, consume, acknowledge, 2 consumers",
        _loaded("amqp", "del", *W8, *_AMQP, "--prefetch", "100"),
    ),
    Workload("http", f"HTTP batches of {EVENTS_IN_BATCH}, {CONNECTIONS} connections", _published),
    Workload("pull", "HTTP pull and acknowledge by 100", _pulled(100)),
    Workload("pull-32", "HTTP pull and acknowledge by 32", _pulled(32)),
    Workload("send", f"{_CALLS}: send", _called(sends(1))),
    Workload("send-10", f"{_CALLS}: send 10", _called(sends(10))),
    Workload(
        "receive",
        f"{_CALLS}: receive {RECEIVED} and acknowledge",
        _called(receives, fill=True),
    ),
)


def workloads(only: str | None) -> list[Workload]:
    """The workloads with a name that begins so; a whole name is that one alone, and None is all."""
    exact = [each for each in WORKLOADS if each.name == only]
    return exact or [each for each in WORKLOADS if each.name.startswith(only or "")]
