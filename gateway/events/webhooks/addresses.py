"""Addresses: the addresses that deliveries may connect to.

A name is resolved once for a connection, and the connection goes to a checked address: a second look-up could give
another answer. A literal address in a URL is checked likewise.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
"""Prefixes of IPv4/IPv6 translators: the embedded IPv4 address counts."""


class ForbiddenAddressError(OSError):
    """A sink is at an address that is not allowed."""


class AddressPolicy:
    """The rule of allowed addresses: public ones, and those in `networks`."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(each) for each in networks]

    def allows(self, text: str) -> bool:
        """True if deliveries may connect to an address."""
        try:
            address: Address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        address = _inner(address)
        if any(address.version == network.version and address in network for network in self._networks):
            return True
        return address.is_global and not address.is_multicast and not address.is_reserved

    def check(self, host: str, text: str) -> None:
        """Raise ForbiddenAddressError unless the address is allowed."""
        if not self.allows(text):
            raise ForbiddenAddressError(
                f"{host!r} is at {text}, which is not public and in none of webhooks.allowed_networks"
            )

    def check_host(self, host: str) -> None:
        """Raise ForbiddenAddressError where a URL's host is a literal address that is not allowed."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        self.check(host, host)


def _inner(address: Address) -> Address:
    """The IPv4 address that is embedded in an IPv6 one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if any(address in network for network in _TRANSLATED):
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def checked_socket(policy: AddressPolicy, info: tuple[object, ...]) -> socket.socket:
    """Return the socket of a connection, after a last check of its address, wherever that came from."""
    family, kind, protocol, _, address = info
    assert isinstance(address, tuple)
    policy.check(str(address[0]), str(address[0]))
    made = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    made.setblocking(False)
    return made
