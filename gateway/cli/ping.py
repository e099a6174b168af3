"""`entrepot ping`: whether a process of ours is there; made for health checks."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gateway.cli import settings_flags
from gateway.cli.client import Client
from gateway.cli.errors import USAGE, CommandError
from gateway.cli.output import JsonOption, print_outcome
from gateway.cli.settings_flags import ConfigOption, SetOption


def ping(
    target: Annotated[
        str, typer.Argument(metavar="HOST:PORT|URL", show_default=False, help="Broker or name server; or an HTTP door.")
    ],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest wait for it.", min=0.01)] = 3.0,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a broker, a name server (HOST:PORT) or a server's HTTP door (http://HOST:PORT) whether it takes requests.

    Ends with 0 and prints how long the answer took, or with 1 and why there was none. The settings cluster.name and
    cluster.tls_* are those of the one that is asked.
    """
    if "://" in target:
        begun = time.perf_counter()
        Client(target, timeout).get("/readyz")
        seconds = time.perf_counter() - begun
    else:
        seconds = _ping_wire(target, timeout, config, set_ or [])
    outcome = {"target": target, "seconds": round(seconds, 6)}
    print_outcome(outcome, f"{target} answers after {seconds * 1000:.1f} ms", as_json=as_json)


def _ping_wire(address: str, timeout: float, config: ConfigOption, assignments: list[str]) -> float:
    import asyncio

    from domain.errors import EntrepotError
    from gateway.log import configure_logging
    from store_client.remote.ping import ping

    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise CommandError(f"{address!r} is neither HOST:PORT nor a URL", USAGE)
    configure_logging("error", "console")  # what is wrong is told once, by the exit
    cluster = settings_flags.load(config, assignments, {}).settings.cluster
    tls = (cluster.tls_certificate, cluster.tls_key, cluster.tls_ca)
    try:
        return asyncio.run(ping(address, cluster=cluster.name, tls=tls, seconds=timeout))
    except (EntrepotError, OSError) as error:  # an ssl.SSLError is an OSError
        raise CommandError(f"{address} does not answer: {error}") from error
