"""Addresses: the addresses that deliveries may connect to.

A name is resolved once for a connection, and the connection goes to a checked address: a second look-up could give
another answer. A literal address in a URL is checked likewise.

Which addresses are public is written here, by the IANA's registries of special-purpose addresses: the answers of
`ipaddress` differ from one version of Python to the next.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
"""Prefixes of IPv4/IPv6 translators: the embedded IPv4 address counts."""


_SPECIAL: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
"""IPv4 addresses that are not public (RFC 6890 and its registry)."""
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All IPv6 addresses that may be public."""
_SPECIAL_UNICAST: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Those of them that are not: of protocols such as Teredo, of documentation, and of 6to4."""


NO_ADDRESS: Final = "its name has no address that is public, or in webhooks.allowed_networks"
"""The words for a name that is not known, and for one that leads inside: nobody learns which names are there."""


class ForbiddenAddressError(OSError):
    """A sink is at an address that is not allowed.  The text does not tell what a name leads to."""


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
        return is_public(address)

    def check(self, host: str, text: str) -> None:
        """Raise ForbiddenAddressError unless the address is allowed."""
        if not self.allows(text):
            is_literal = host == text
            raise ForbiddenAddressError(
                f"{text} is not public, and in none of webhooks.allowed_networks" if is_literal else NO_ADDRESS
            )

    def check_host(self, host: str) -> None:
        """Raise ForbiddenAddressError where a URL's host is a literal address that is not allowed."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        self.check(host, host)


def is_public(address: Address) -> bool:
    """True if an address may be reached from anywhere."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL)
    return address in _UNICAST and not any(address in network for network in _SPECIAL_UNICAST)


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
