"""`entrepot serve`, the whole server, and its parts: `nameserver`, `controller`, `broker` and `gateway`."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from entrepot.gateway.cli import settings_flags
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.settings_flags import ConfigOption, SetOption

if TYPE_CHECKING:
    from entrepot.gateway.settings import Settings

NameServers = Annotated[
    str | None, typer.Option("--nameserver", metavar="HOST:PORT,...", help="Addresses of all name servers.")
]
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Data directory.")]
Host = Annotated[str | None, typer.Option(metavar="H", help="Bind address of every listener.")]
Port = Annotated[int | None, typer.Option(metavar="N", help="Listening port; 0: a free one.")]
MqttPort = Annotated[int | None, typer.Option(metavar="N", help="MQTT port; 0: a free one.")]
AmqpPort = Annotated[int | None, typer.Option(metavar="N", help="AMQP port; 0: a free one.")]
GrpcPort = Annotated[int | None, typer.Option(metavar="N", help="gRPC port for RocketMQ clients; 0: a free one.")]
HttpPort = Annotated[int | None, typer.Option(metavar="N", help="HTTP port; 0: a free one.")]
FreePorts = Annotated[
    bool, typer.Option("--free-ports", help="Use a free port for every listener without a given one.")
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File for the listeners' addresses as JSON, written once all are up."),
]
ControllerList = Annotated[
    str | None, typer.Option("--controllers", metavar="ID=HOST:PORT,...", help="Ids and addresses of all controllers.")
]
START_THRESHOLDS: Final = (100_000, 50, 1000)
"""Thresholds of the garbage collector during a start: of what is made then nearly all stays."""


def _loaded(name: str) -> ModuleType:
    """A module that runs a process, for which no other command pays. `settle_memory` ends what is set here."""
    gc.set_threshold(*START_THRESHOLDS)
    return import_module(f"entrepot.gateway.{name}")


def serve(
    config: ConfigOption = None,
    data_dir: DataDir = None,
    host: Host = None,
    mqtt_port: MqttPort = None,
    amqp_port: AmqpPort = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    broker_port: Annotated[
        int | None,
        typer.Option(metavar="N", help="Port for gateways on other machines, closed without it; 0: a free one."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of gateway processes before one store process; 1: all in one process."),
    ] = None,
    free_ports: FreePorts = False,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start the server: MQTT, AMQP, RocketMQ and HTTP in front of one durable store.

    Settings come from the file, then the environment (ENTREPOT__SECTION__KEY), then flags; the later wins.
    'entrepot config show' prints them all.
    """
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "store.data_dir": ("--data-dir", data_dir),
            "server.host": ("--host", host),
            "mqtt.port": ("--mqtt-port", mqtt_port),
            "amqp.port": ("--amqp-port", amqp_port),
            "grpc.port": ("--grpc-port", grpc_port),
            "http.port": ("--http-port", http_port),
            "broker.port": ("--broker-port", broker_port),
            "broker.enabled": ("--broker-port", None if broker_port is None else True),
            "cluster.workers": ("--workers", workers),
            "server.free_ports": ("--free-ports", free_ports or None),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    if loaded.settings.cluster.workers > 1:
        _check_workers(loaded.settings)
    raise typer.Exit(_loaded("serving").run(loaded))


def _check_workers(settings: Settings) -> None:
    """Refuse settings that several processes cannot share."""
    if settings.broker.enabled:
        text = "--workers: the door for gateways on other machines is not open then; start 'entrepot broker' and"
        raise CommandError(f"{text} 'entrepot gateway --workers {settings.cluster.workers}' instead", USAGE)


def nameserver(
    config: ConfigOption = None,
    controller: Annotated[
        int | None,
        typer.Option(
            metavar="ID", help="Controller id of this name server, which is then a controller too, at its own address."
        ),
    ] = None,
    controllers: ControllerList = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Data directory of the controller.")] = None,
    host: Host = None,
    port: Port = None,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a name server: brokers register their topics, gateways look up brokers. It stores nothing.

    With --controller it is also one of the controllers, which elect the masters of replicated brokers.
    """
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "controller.id": ("--controller", controller),
            "cluster.controllers": ("--controllers", _addresses(controllers)),
            "controller.data_dir": ("--data-dir", data_dir),
            "server.host": ("--host", host),
            "nameserver.port": ("--port", port),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    if loaded.settings.controller.id:
        _check_controller(loaded.settings)
    raise typer.Exit(_loaded("deployment").run_name_server(loaded))


def controller(
    config: ConfigOption = None,
    id_: Annotated[int | None, typer.Option("--id", metavar="ID", help="Id of this controller.")] = None,
    controllers: ControllerList = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Data directory of the controller.")] = None,
    host: Host = None,
    port: Port = None,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a controller: one of three or five that elect the masters of replicated brokers.

    Name servers can be controllers, too (entrepot nameserver --controller), without further processes.
    """
    loaded = settings_flags.load(
        config,
        set_ or [],
        {
            "controller.id": ("--id", id_),
            "cluster.controllers": ("--controllers", _addresses(controllers)),
            "controller.data_dir": ("--data-dir", data_dir),
            "server.host": ("--host", host),
            "controller.port": ("--port", port),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    _check_controller(loaded.settings)
    raise typer.Exit(_loaded("deployment").run_controller(loaded))


def _check_controller(settings: Settings) -> None:
    own, addresses = settings.controller.id, settings.cluster.controller_addresses()
    if not own:
        raise CommandError("a controller needs its id among the controllers: --id, or controller.id", USAGE)
    if not addresses:
        raise CommandError("a controller needs the addresses of all: --controllers, or cluster.controllers", USAGE)
    if own not in addresses:
        known = ", ".join(map(str, sorted(addresses)))
        raise CommandError(
            f"cluster.controllers has no {own}=host:port, which controller.id says this is; it has {known}", USAGE
        )


def broker(
    config: ConfigOption = None,
    nameserver: NameServers = None,
    data_dir: DataDir = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Broker name, which must not change as long as its data exists.")
    ] = None,
    host: Host = None,
    port: Port = None,
    controllers: ControllerList = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address for gateways; else the listening address.")
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
            "cluster.controllers": ("--controllers", _addresses(controllers)),
            "store.data_dir": ("--data-dir", data_dir),
            "broker.name": ("--name", name),
            "server.host": ("--host", host),
            "broker.port": ("--port", port),
            "broker.advertise": ("--advertise", advertise),
            "server.ready_file": ("--ready-file", ready_file),
        },
    )
    raise typer.Exit(_loaded("deployment").run_broker(loaded))


def gateway(
    config: ConfigOption = None,
    nameserver: NameServers = None,
    brokers: Annotated[
        str | None,
        typer.Option("--broker", metavar="HOST:PORT,...", help="Addresses of brokers, without a name server."),
    ] = None,
    host: Host = None,
    mqtt_port: MqttPort = None,
    amqp_port: AmqpPort = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Number of processes that share these ports.")
    ] = None,
    free_ports: FreePorts = False,
    ready_file: ReadyFile = None,
    set_: SetOption = None,
) -> None:
    """Start a gateway: MQTT, AMQP, RocketMQ and HTTP in front of brokers on other machines. It stores nothing."""
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
    if not (settings.cluster.name_servers or settings.cluster.brokers or settings.rocketmq.name_servers):
        raise CommandError(
            "a gateway needs --nameserver, --broker, or rocketmq.name_servers: where is the store?", USAGE
        )
    raise typer.Exit(_loaded("serving").run_gateway(loaded))


def _addresses(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
