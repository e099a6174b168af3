"""Where deliveries may connect to."""

from __future__ import annotations

import pytest

from entrepot.gateway.events.webhooks.addresses import (
    AddressPolicy,
    ForbiddenAddressError,
    checked_socket,
)
from entrepot.gateway.events.webhooks.sink_faults import words_of
from entrepot.gateway.events.webhooks.sink_session import CheckingResolver
from tests.support.cases import cases

REFUSED = [
    "127.0.0.1", "127.255.255.255", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::",
    "192.0.0.1", "192.0.0.170", "192.88.99.1", "203.0.113.9", "fec0::1", "2001::1", "2001:2::1", "2001:1ff::1",
    "3fff::1", "5f00::1", "100::1", "::7f00:1", "4000::1", "64:ff9b:1::a00:1",
    "no address", "",
]  # fmt: skip
ALLOWED = [
    "8.8.8.8",
    "1.1.1.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "192.0.1.1",
    "2001:200::1",
    "3ffe::1",
]


@cases("address", REFUSED)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not AddressPolicy([]).allows(address)


@cases("address", ALLOWED)
def test_what_is_public_is_not(address: str) -> None:
    assert AddressPolicy([]).allows(address)


def test_networks_that_are_let_in() -> None:
    policy = AddressPolicy(["10.0.0.0/8", "fd00::/8"])
    assert policy.allows("10.1.2.3") and policy.allows("::ffff:10.1.2.3") and policy.allows("fd00::1")
    assert not policy.allows("172.16.0.1") and not policy.allows("fe80::1")


async def test_a_name_gives_only_what_is_allowed() -> None:
    with pytest.raises(ForbiddenAddressError, match=r"^its name has no address that is public"):
        await CheckingResolver(AddressPolicy([])).resolve("localhost", 80)
    found = await CheckingResolver(AddressPolicy(["127.0.0.0/8"])).resolve("localhost", 80)
    assert {each["host"] for each in found} == {"127.0.0.1"}


def test_the_socket_is_the_last_to_look() -> None:
    import socket

    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    with pytest.raises(ForbiddenAddressError):
        checked_socket(AddressPolicy([]), info)
    made = checked_socket(AddressPolicy(["127.0.0.1/32"]), info)
    assert not made.getblocking()
    made.close()


def test_nobody_learns_which_names_lead_inside() -> None:
    """A name that is not known, and one that leads inside, are told alike."""
    import socket
    from unittest.mock import Mock

    import aiohttp

    unknown = aiohttp.ClientConnectorDNSError(Mock(), socket.gaierror(-2, "Name or service not known"))
    with pytest.raises(ForbiddenAddressError) as inside:
        AddressPolicy([]).check("db.internal", "10.2.3.4")
    assert words_of(unknown, 1) == words_of(inside.value, 1)
    with pytest.raises(ForbiddenAddressError, match=r"10\.2\.3\.4 is not public"):
        AddressPolicy([]).check_host("10.2.3.4")
