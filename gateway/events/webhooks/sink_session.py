"""SinkSession: connections to sinks over aiohttp, loaded with the first request. Redirects are not followed, and
answers are bounded."""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Final

import aiohttp
import structlog
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from entrepot.domain.url import target_of
from entrepot.gateway.events.webhooks.addresses import NO_ADDRESS, AddressPolicy, ForbiddenAddressError, checked_socket
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.events.webhooks.sink_connection import SinkConnector
from entrepot.gateway.events.webhooks.sink_faults import words_of
from entrepot.gateway.settings import WebhookSettings
from entrepot.gateway.settings.version import own_version

USER_AGENT: Final = f"entrepot/{own_version()}"
DNS_SECONDS: Final = 30
IDLE_SECONDS: Final = 15.0
ENCODINGS: Final = "gzip, deflate"
"""Content codings that are decoded (RFC 9110 8.4.1)."""
_ANY_ZLIB: Final = zlib.MAX_WBITS | 32
"""For zlib: the data may be of either coding."""
_CACHED_URLS: Final = 1024

log = structlog.get_logger(__name__)


class CheckingResolver(AbstractResolver):
    """A resolver of names that returns only allowed addresses."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises ForbiddenAddressError where none is allowed."""
        found = await self._resolver.resolve(host, port, family)
        allowed = [each for each in found if self._policy.allows(each["host"])]
        if not allowed:
            at = [each["host"] for each in found]
            log.info("a webhook's name leads to no allowed address", seldom=host, host=host, addresses=at)
            raise ForbiddenAddressError(NO_ADDRESS)
        return allowed

    async def close(self) -> None:
        await self._resolver.close()


class SinkSession:
    """An HTTP client, made on the event loop that it is used on."""

    def __init__(self, policy: AddressPolicy, settings: WebhookSettings) -> None:
        self._settings = settings
        self._session = aiohttp.ClientSession(
            connector=SinkConnector(
                resolver=CheckingResolver(policy),
                socket_factory=partial(checked_socket, policy),
                ttl_dns_cache=DNS_SECONDS,
                limit=settings.max_requests,
                limit_per_host=settings.max_connections_per_host,
                keepalive_timeout=IDLE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": ENCODINGS},
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            trust_env=False,
        )

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_seconds: float,
        context: ssl.SSLContext | None = None,
    ) -> Answer:
        """Send one request; `context`: for TLS, None for the usual one. Faults of the sink or of the network never
        raise."""
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=self._settings.connect_seconds or None)
        try:
            async with self._session.request(
                method,
                _as_given(url),
                headers=headers,
                data=body,
                allow_redirects=False,
                timeout=timeout,
                ssl=True if context is None else context,
            ) as response:
                told = {name.lower(): value for name, value in response.headers.items()}
                content = await self._bounded(response)
                return Answer(response.status, told, self._decoded(content, told.get("content-encoding", "")))
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:  # TimeoutError is an OSError
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            if isinstance(cause, ForbiddenAddressError):
                return Answer(0, fault=words_of(cause, timeout_seconds), is_forbidden=True)
            log.debug("a request to a sink failed", sink=url, exc_info=error)
            is_forbidden = isinstance(error, aiohttp.InvalidURL)
            return Answer(0, fault=words_of(error, timeout_seconds), is_forbidden=is_forbidden)

    async def _bounded(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the body up to the limit; the connection of a longer one is closed."""
        limit = self._settings.max_response_bytes
        content = b""
        while len(content) <= limit:
            part = await response.content.read(limit + 1 - len(content))
            if not part:
                return content
            content += part
        response.close()
        return content[:limit]

    def _decoded(self, content: bytes, coding: str) -> bytes:
        """Return what is encoded, up to the limit; as it came where that cannot be done."""
        if not content or coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
            return content
        try:
            return zlib.decompressobj(_ANY_ZLIB).decompress(content, self._settings.max_response_bytes)
        except zlib.error:
            return content

    async def close(self) -> None:
        await self._session.close()


@lru_cache(_CACHED_URLS)
def _as_given(url: str) -> URL:
    """A URL that is requested as it was given: yarl would decode and encode its characters."""
    parsed = URL(url)
    return URL.build(scheme=parsed.scheme, authority=parsed.raw_authority, path=target_of(url), encoded=True)
