"""`python -m benchmarks [--quick] [store] [mqtt [--only W4]] [sessions] [http] [remote] [cores] [exchanges]
[amqp] [filters] [spark] [unauthenticated] [replication] [failover] [tier] [journey [--against TREE]]
[dashboard] [neighbours] [growth] [authentication] [management] [latency]`. Only where they are named: `large`,
parts of the tier's, `tier_server`, `tier_table` and `tier_spark`, `engine [--only pull] [--warm-up 30]` and
`rocketmq [--warm-up 240]`, which need RocketMQ, and `facts`, which needs etcd (`make peers`).

Run, print, keep it all."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any, Final

from rich.console import Console

from benchmarks.processes import BenchmarkError, build_gwload, raise_file_limit
from benchmarks.report import machine_facts

NAMES: Final = (
    "store", "mqtt", "sessions", "http", "remote", "cores", "exchanges", "amqp", "filters", "spark",
    "unauthenticated", "replication", "failover", "tier", "journey", "dashboard",
    "neighbours", "growth", "authentication", "management", "latency",
)  # fmt: skip
NAMED: Final = ("large", "engine", "rocketmq", "facts", "tier_server", "tier_table", "tier_spark")
"""Those that run only where they are named: they take long, need Java, or are parts of another one."""


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for; it ends with the usage where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    every = (*NAMES, *NAMED)
    parser.add_argument("names", nargs="*", choices=[*every, []], metavar="name", help=f"which: {', '.join(every)}")
    parser.add_argument("--quick", action="store_true", help="one short round of each; nothing is kept")
    parser.add_argument("--only", help="mqtt, engine: the workloads whose names begin so; nothing is kept")
    parser.add_argument("--messages", type=int, default=1_000_000, help="sessions: how many are published")
    parser.add_argument("--sessions", type=int, default=20_000, help="sessions: how many are away")
    parser.add_argument("--against", help="journey: another tree of the code, whose publishing is compared")
    parser.add_argument("--warm-up", type=_seconds, help="engine, rocketmq: seconds to warm RocketMQ's Java up")
    return parser.parse_args(arguments)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return seconds


def main() -> int:
    """Run the benchmarks; return 0 when everything asked for ran, whatever the figures."""
    chosen = parsed()
    console, errors = Console(width=None if sys.stdout.isatty() else 140), Console(stderr=True)
    raise_file_limit()
    machine = machine_facts()
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()))
    failed = 0
    try:
        build_gwload()
        for name in chosen.names or NAMES:
            console.rule(name)
            try:
                report = importlib.import_module(f"benchmarks.{name}").run(
                    console, quick=chosen.quick, **_options(name, chosen)
                )
            except BenchmarkError as error:
                errors.print(f"{name}: {error}", style="red")
                failed += 1
                continue
            report.show(console)
            if not chosen.quick and not chosen.only:
                report.write(machine)
    except BenchmarkError as error:
        errors.print(str(error), style="red")
        failed += 1
    return 1 if failed else 0


def _options(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    if name == "mqtt":
        return {"only": chosen.only}
    if name == "engine":
        return {"only": chosen.only, "warm_up": chosen.warm_up}
    if name == "rocketmq":
        return {"warm_up": chosen.warm_up}
    if name == "journey":
        return {"against": chosen.against}
    return {"messages": chosen.messages, "sessions": chosen.sessions} if name == "sessions" else {}


if __name__ == "__main__":
    sys.exit(main())
