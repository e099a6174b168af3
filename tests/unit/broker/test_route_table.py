"""A name server's knowledge of brokers, and how long it lasts."""

from __future__ import annotations

from entrepot.broker.namesrv.route_table import RouteTable
from entrepot.domain.route import BrokerInfo, Registration

LEASE_SECONDS = 10.0
REGISTRATION = Registration(BrokerInfo("a", 0, "127.0.0.1:1", "store", epoch=1), version=1)


def alive(table: RouteTable) -> list[bool]:
    return [route.is_alive for route in table.routes().brokers]


def test_heartbeats_keep_a_broker_alive():
    """And nothing changes with them, which all who watch would have to hear."""
    table = RouteTable("server", LEASE_SECONDS)
    table.register(REGISTRATION, "connection", 0.0)
    version = table.version
    for beat in (4.0, 8.0, 12.0, 16.0, 20.0):
        assert table.heartbeat("a", 1, 1, "connection", beat)
        table.scan(beat)
    assert alive(table) == [True]
    assert table.version == version


def test_a_broker_is_away_when_its_lease_is_over():
    table = RouteTable("server", LEASE_SECONDS)
    table.register(REGISTRATION, "connection", 0.0)
    assert table.heartbeat("a", 1, 1, "connection", 5.0)
    table.scan(14.9)
    assert alive(table) == [True]
    table.scan(15.0)
    assert alive(table) == [False]
    assert not table.heartbeat("a", 1, 1, "connection", 15.1), "it is to register again"


def test_a_connection_that_closed_after_the_broker_came_by_another_ends_nothing():
    table = RouteTable("server", LEASE_SECONDS)
    table.register(REGISTRATION, "first", 0.0)
    assert table.heartbeat("a", 1, 1, "second", 1.0)
    table.disconnected("first")
    assert alive(table) == [True]
    table.disconnected("second")
    assert alive(table) == [False]
