"""`entrepot nameserver`, `entrepot broker`, `entrepot gateway`: the parts of a deployment on several machines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import settings_flags
from gateway.cli.errors import USAGE, CommandError
from gateway.cli.settings_flags import ConfigOption, SetOption

NameServers = Annotated[
    str | None, typer.Option("--nameserver", metavar="HOST:PORT,...", help="Every name server there is.")
]
Host = Annotated[str | None, typer.Option(metavar="H", help="Address that every listener binds to.")]
ReadyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Gets the listeners' addresses as JSON once all are up.")
]


def nameserver(
    config: ConfigOption = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port to listen on; 0: a free one.")] = None,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a name server: brokers tell it what they have, gateways ask it where that is.  It keeps nothing."""
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "server.host": ("--host", host),
            "nameserver.port": ("--port", port),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    raise typer.Exit(import_module("gateway.deployment").run_name_server(loaded))


def broker(
    config: ConfigOption = None,
    nameserver: NameServers = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of everything that is kept.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Its name, the same as long as its data.")] = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port to listen on; 0: a free one.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where gateways reach it; else where it listens.")
    ] = None,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a broker: a durable store that gateways reach over the network."""
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "cluster.name_servers": ("--nameserver", _addresses(nameserver)),
            "store.data_dir": ("--data-dir", data_dir),
            "broker.name": ("--name", name),
            "server.host": ("--host", host),
            "broker.port": ("--port", port),
            "broker.advertise": ("--advertise", advertise),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    if loaded.settings.store.kind != "embedded":
        raise CommandError("a broker keeps what it is given: store.kind must be embedded", USAGE)
    raise typer.Exit(import_module("gateway.deployment").run_broker(loaded))


def gateway(
    config: ConfigOption = None,
    nameserver: NameServers = None,
    brokers: Annotated[
        str | None, typer.Option("--broker", metavar="HOST:PORT,...", help="Brokers, where there is no name server.")
    ] = None,
    host: Host = None,
    mqtt_port: Annotated[int | None, typer.Option(metavar="N", help="Port of the MQTT door; 0: a free one.")] = None,
    amqp_port: Annotated[int | None, typer.Option(metavar="N", help="Port of the AMQP door; 0: a free one.")] = None,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="N", help="Port of the door for RocketMQ's clients; 0: a free one.")
    ] = None,
    http_port: Annotated[int | None, typer.Option(metavar="N", help="Port of the HTTP door; 0: a free one.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes that share these ports.")] = None,
    free_ports: Annotated[
        bool, typer.Option("--free-ports", help="A free port for every listener that is given none.")
    ] = False,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a gateway: MQTT, AMQP, RocketMQ and HTTP in front of brokers on other machines.  It keeps nothing."""
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "cluster.name_servers": ("--nameserver", _addresses(nameserver)),
            "cluster.brokers": ("--broker", _addresses(brokers)),
            "server.host": ("--host", host),
            "mqtt.port": ("--mqtt-port", mqtt_port),
            "amqp.port": ("--amqp-port", amqp_port),
            "grpc.port": ("--grpc-port", grpc_port),
            "http.port": ("--http-port", http_port),
            "cluster.workers": ("--workers", workers),
            "server.free_ports": ("--free-ports", free_ports or None),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    settings = loaded.settings
    if not (settings.cluster.name_servers or settings.cluster.brokers or settings.rocketmq.endpoints):
        raise CommandError("a gateway needs --nameserver, --broker, or rocketmq.endpoints: where is the store?", USAGE)
    raise typer.Exit(import_module("gateway.serving").run_gateway(loaded))


def _addresses(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
