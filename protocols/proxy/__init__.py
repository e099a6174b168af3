"""The PROXY protocol, versions 1 and 2: a load balancer's header on the connection that it passes on."""

from entrepot.protocols.proxy.header import (
    MalformedProxyHeaderError,
    ProxyHeader,
    ProxyTls,
    begins_header,
    parse_header,
)
from entrepot.protocols.proxy.layout import MAX_HEADER_BYTES

__all__ = [
    "MAX_HEADER_BYTES",
    "MalformedProxyHeaderError",
    "ProxyHeader",
    "ProxyTls",
    "begins_header",
    "parse_header",
]
