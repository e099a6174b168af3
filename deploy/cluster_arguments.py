"""The command line of `make cluster`: the number of each part."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ENOUGH_BYTES: Final = 8 << 30
"""Free memory from which on there are three of each."""
MAX_CONTROLLERS: Final = 5


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line and add default numbers. Ends the process on wrong usage."""
    parser = argparse.ArgumentParser(
        prog="make cluster", description="Start a cluster on this machine, print where everything is, stop it together."
    )
    _add(parser)
    wanted = parser.parse_args(given)
    _fill_in(wanted, is_large=_free_bytes() >= ENOUGH_BYTES)
    if wanted.controllers > wanted.nameservers:
        parser.error(
            f"--controllers {wanted.controllers}: they are in name servers, and there are {wanted.nameservers}"
        )
    return wanted


def _add(parser: argparse.ArgumentParser) -> None:
    def add(flag: str, text: str, least: int, most: int = 99) -> None:
        def whole(text: str) -> int:
            value = int(text)
            if not least <= value <= most:
                raise ValueError
            return value

        whole.__name__ = f"number ({least} to {most})"
        parser.add_argument(flag, type=whole, metavar="N", help=text)

    parser.add_argument(
        "--data-dir", type=Path, default=Path("data/cluster"), metavar="DIR", help="what brokers keep, and all logs"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address that everything binds to")
    add("--nameservers", "how many name servers (3; 2 where memory is short)", 1)
    add("--brokers", "how many brokers (1 of three replicas; 2 without replicas where memory is short)", 1)
    add("--replicas", "how many replicas each broker has (3; 1 if you say how many brokers)", 1)
    parser.add_argument(
        "--rule", default="in-sync", metavar="R", help="when a message is confirmed: async, in-sync, or such as 2-3"
    )
    add("--controllers", "how many name servers elect the masters (of replicas: 1, 3 or 5)", 0, MAX_CONTROLLERS)
    add("--gateways", "how many gateways (3; 2 where memory is short)", 1)
    add("--mqtt-port", "MQTT port of the first gateway, the others count on from it; else free ones", 0, 65_535)
    add("--amqp-port", "the same for AMQP", 0, 65_535)
    add("--grpc-port", "the same for RocketMQ's clients", 0, 65_535)
    add("--http-port", "the same for HTTP", 0, 65_535)
    add("--broker-port", "the same for the brokers", 0, 65_535)
    add("--nameserver-port", "the same for the name servers", 0, 65_535)


def _fill_in(wanted: argparse.Namespace, *, is_large: bool) -> None:
    each = 3 if is_large else 2
    wanted.nameservers = wanted.nameservers or each
    wanted.gateways = wanted.gateways or each
    wanted.replicas = wanted.replicas or (3 if is_large and wanted.brokers is None else 1)
    wanted.brokers = wanted.brokers or (1 if wanted.replicas > 1 else 2)
    if wanted.controllers is None:
        most = min(wanted.nameservers, MAX_CONTROLLERS)
        wanted.controllers = 0 if wanted.replicas == 1 else most - (most + 1) % 2  # an even one more bears no more


def _free_bytes() -> int:
    """Available memory in bytes; 0 where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    found = dict(line.split(":", 1) for line in lines)
    return int(found.get("MemAvailable", "0").split()[0]) * 1024
