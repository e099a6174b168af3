"""Names of connections and channels, as RabbitMQ's management writes them."""

from __future__ import annotations

from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.transport.driver import Driver


def connection_name(driver: Driver | None) -> str:
    """Return the name of a connection: the client's address, an arrow, the server's address."""
    return " -> " if driver is None else f"{driver.peer} -> {driver.local}"


def channel_name(channel: AmqpChannel) -> str:
    """Return the name of a channel: its connection's, and its number."""
    return f"{connection_name(channel.out.driver)} ({channel.out.number})"
