"""`entrepot serve`: the server itself."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.gateway.cli import settings_flags
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.settings_flags import ConfigOption, SetOption

if TYPE_CHECKING:
    from entrepot.gateway.settings import Settings


def serve(
    config: ConfigOption = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Data directory.")] = None,
    host: Annotated[str | None, typer.Option(metavar="H", help="Bind address of every listener.")] = None,
    mqtt_port: Annotated[int | None, typer.Option(metavar="N", help="MQTT port; 0: a free one.")] = None,
    amqp_port: Annotated[int | None, typer.Option(metavar="N", help="AMQP port; 0: a free one.")] = None,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="N", help="gRPC port for RocketMQ clients; 0: a free one.")
    ] = None,
    http_port: Annotated[int | None, typer.Option(metavar="N", help="HTTP port; 0: a free one.")] = None,
    broker_port: Annotated[
        int | None,
        typer.Option(metavar="N", help="Port for gateways on other machines, closed without it; 0: a free one."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of gateway processes before one store process; 1: all in one process."),
    ] = None,
    free_ports: Annotated[
        bool, typer.Option("--free-ports", help="Use a free port for every listener without a given one.")
    ] = False,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the listeners' addresses as JSON, written once all are up."),
    ] = None,
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
    run = import_module("entrepot.gateway.serving").run  # the whole server: no other command pays for its import
    raise typer.Exit(run(loaded))


def _check_workers(settings: Settings) -> None:
    """Refuse settings that several processes cannot share."""
    if settings.store.kind != "embedded":
        raise CommandError("--workers: a store in memory is one process's; store.kind must be embedded", USAGE)
    if settings.broker.enabled:
        text = "--workers: the door for gateways on other machines is not open then; start 'entrepot broker' and"
        raise CommandError(f"{text} 'entrepot gateway --workers {settings.cluster.workers}' instead", USAGE)
