"""The MQTT workloads: the arguments of gwload for each, and the quoted figures.

Their names are those of gwload's WORKLOADS.md. Figures are per CPU-second of the server with its children, because that
is steady on a busy machine; latency comes from the open loop alone, where no window hides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from benchmarks.report import Goal

RUN_SECONDS: Final = 3.0
QUICK_SECONDS: Final = 1.5


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a run, with gwload's name and ours; `judged` is the subject of the goal, "ours" or "ratio"."""

    key: str
    what: str
    unit: str
    goal: Goal | None = None
    judged: str = "ratio"
    divisor: float = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """One run of gwload, up to `ends`, or to `quick_ends` in a quick run. With `probe`, that number of messages is
    published first, to find the number for RUN_SECONDS."""

    name: str
    arguments: tuple[str, ...]
    figures: tuple[Figure, ...]
    ends: tuple[str, ...] = ()
    quick_ends: tuple[str, ...] | None = None
    probe: int = 0

    def command(self, *, quick: bool) -> tuple[str, ...]:
        return (*self.arguments, *(self.quick_ends if quick and self.quick_ends else self.ends))

    def probe_command(self) -> tuple[str, ...]:
        return (*self.arguments, "--count", str(self.probe))

    def sized_command(self, probed: dict[str, Any], *, quick: bool) -> tuple[str, ...]:
        """The command with as many messages as fill the run's time, by an unrecorded run of `probe_command`."""
        seconds = max(float(probed["pub_s"]), float(probed.get("del_s", 0)), 0.001)
        wanted = QUICK_SECONDS if quick else RUN_SECONDS
        return (*self.arguments, "--count", str(max(self.probe, int(self.probe * wanted / seconds))))


def _per_cpu(what: str, key: str, goal: float | None) -> Figure:
    return Figure(key, what, "msg/CPU-s", None if goal is None else Goal(goal))


FAN_IN: Final = ("--pubs", "100", "--topics", "10", "--size", "200")
WINDOW_20: Final = ("--window", "20")
THREE_SECONDS: Final = ("--duration", "3")
BACKLOG: Final = ("--mode", "backlog", "--qos", "1", "--size", "200", "--drain", "10")
BACKLOG_ONE: Final = (*BACKLOG, "--pubs", "100", "--topics", "10", "--subs", "1", "--filter", "all")
OPEN_LOOP: Final = ("--rate", "2000", "--warmup", "1000")
FAN_OUT: Final = ("--pubs", "1", "--subs", "200", "--topics", "1", "--size", "200", "--warmup", "10")

WORKLOADS: Final = (
    Workload(
        "W1",
        (*FAN_IN, *WINDOW_20, "--qos", "1", "--warmup", "2000"),
        (_per_cpu("QoS 1 fan-in, nobody subscribed (ours stored, mosquitto's dropped)", "pub_per_cpu_s", None),),
        THREE_SECONDS,
    ),
    Workload(
        "W1d",
        (*BACKLOG_ONE, *WINDOW_20),
        (
            _per_cpu("QoS 1 fan-in, kept for one offline session", "pub_pub_per_cpu_s", 2),
            Figure("pub_rate", "the same", "msg/s"),
            _per_cpu("the same, read by the session when it is back", "drain_del_per_cpu_s", None),
        ),
        ("--count", "200000", "--duration", "4"),
    ),
    Workload(
        "W1d1",
        (*BACKLOG_ONE, "--window", "1"),
        (_per_cpu("QoS 1 fan-in, window 1, kept for one offline session", "pub_pub_per_cpu_s", 0.5),),
        ("--count", "100000", "--duration", "4"),
    ),
    Workload(
        "W2",
        (*FAN_IN, *WINDOW_20, "--subs", "4", "--share", "g", "--qos", "1", "--warmup", "2000"),
        (_per_cpu("QoS 1 fan-in, delivered to a shared subscription of 4", "del_per_cpu_s", 1),),
        THREE_SECONDS,
    ),
    Workload(
        "W2n",
        (*FAN_IN, *WINDOW_20, "--subs", "4", "--filter", "all", "--qos", "1", "--warmup", "500"),
        (_per_cpu("QoS 1 fan-in, delivered to 4 ordinary subscribers", "del_per_cpu_s", None),),
        THREE_SECONDS,
    ),
    Workload(
        "W3",
        (*FAN_IN, *WINDOW_20, "--qos", "0", "--warmup", "500"),
        (_per_cpu("QoS 0 fan-in (ours stored, mosquitto's dropped)", "pub_per_cpu_s", 1),),
        probe=20_000,
    ),
    Workload(
        "W4q0",
        (*FAN_OUT, "--qos", "0"),
        (_per_cpu("QoS 0 fan-out to 200, delivered", "del_per_cpu_s", 6),),
        probe=1000,
    ),
    Workload(
        "W4q1",
        (*FAN_OUT, "--qos", "1", "--window", "10"),
        (_per_cpu("QoS 1 fan-out to 200, delivered", "del_per_cpu_s", 3),),
        THREE_SECONDS,
    ),
    Workload(
        "W5",
        (*FAN_IN, *WINDOW_20, "--qos", "2", "--warmup", "2000"),
        (_per_cpu("QoS 2 fan-in", "pub_per_cpu_s", 1),),
        THREE_SECONDS,
    ),
    Workload(
        "W6",
        (*BACKLOG, "--pubs", "10", "--topics", "10", "--subs", "10", "--filter", "own", "--window", "100"),
        (
            _per_cpu("kept for 10 offline sessions, 10,000 each", "pub_pub_per_cpu_s", None),
            _per_cpu("10 sessions back, 10,000 for each", "drain_del_per_cpu_s", 0.5),
        ),
        ("--count", "100000", "--duration", "8"),
    ),
    Workload(
        "W9storm",
        ("--mode", "conn", "--conns", "5000", "--conc", "64"),
        (
            Figure("connects_per_cpu_s", "5,000 connects, 64 at a time", "connects/CPU-s", Goal(0.3)),
            Figure("connects_rate", "the same", "connects/s"),
        ),
        ("--hold", "2"),
    ),
    Workload(
        "W9idle",
        ("--mode", "conn", "--conns", "10000", "--conc", "64"),
        (Figure("rss_per_conn_kb", "10,000 idle connections", "KB each", Goal(12, at_most=True), "ours"),),
        ("--hold", "4"),
    ),
    Workload(
        "W10",
        (*OPEN_LOOP, "--pubs", "10", "--topics", "1", "--subs", "1", "--qos", "1", "--size", "200"),
        (
            Figure("ack_p50_us", "to PUBACK at 2,000/s, p50", "ms", Goal(1, at_most=True), "ours", 1000),
            Figure("ack_p99_us", "to PUBACK at 2,000/s, p99", "ms", Goal(8, at_most=True), "ours", 1000),
            Figure("lat_p50_us", "to the subscriber at 2,000/s, p50", "ms", Goal(1, at_most=True), "ours", 1000),
            Figure("lat_p99_us", "to the subscriber at 2,000/s, p99", "ms", Goal(8, at_most=True), "ours", 1000),
            Figure("broker_cores", "CPU at 2,000/s", "cores used"),
        ),
        ("--duration", "8"),
        ("--duration", "4"),
    ),
)


def chosen(only: str | None) -> list[Workload]:
    """The workloads with a prefix of the name ("W4": both; "W1d" itself where that is an exact name), or all."""
    if not only:
        return list(WORKLOADS)
    exact = [each for each in WORKLOADS if each.name.lower() == only.lower()]
    return exact or [each for each in WORKLOADS if each.name.lower().startswith(only.lower())]
