"""SinkClient: the one HTTP client of all deliveries. Addresses are checked, redirects not followed, answers bounded."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import aiohttp
import structlog
from yarl import URL

from entrepot.gateway.events.webhooks.addresses import (
    AddressPolicy,
    CheckingResolver,
    ForbiddenAddressError,
    checked_socket,
)
from entrepot.gateway.events.webhooks.sink_connection import SinkConnector
from entrepot.gateway.events.webhooks.sink_faults import words_of
from entrepot.gateway.settings import WebhookSettings
from entrepot.gateway.version import own_version

USER_AGENT: Final = f"entrepot/{own_version()}"
DNS_SECONDS: Final = 30
IDLE_SECONDS: Final = 15.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A sink's answer, with header names in lower case; `status` 0 is no answer, for the reason in `fault`."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str = ""
    is_forbidden: bool = False
    """True if the sink's address is not allowed: another try would change nothing."""
    is_sinks: bool = True
    """True if the sink caused it; False if the sink was not asked for want of a token."""


class SinkClient:
    """An HTTP client, made on the event loop that it is used on."""

    def __init__(self, settings: WebhookSettings) -> None:
        self.policy = AddressPolicy(settings.allowed_networks)
        self._settings = settings
        self._session = aiohttp.ClientSession(
            connector=SinkConnector(
                resolver=CheckingResolver(self.policy),
                socket_factory=partial(checked_socket, self.policy),
                ttl_dns_cache=DNS_SECONDS,
                limit=settings.max_requests,
                limit_per_host=settings.max_connections_per_host,
                keepalive_timeout=IDLE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            trust_env=False,
        )

    def refusal_of(self, url: str) -> str | None:
        """The reason why a URL is not allowed, as far as its text tells, or None."""
        parsed = URL(url)
        if parsed.scheme != "https" and not self._settings.allow_http:
            return "must be an https URL (webhooks.allow_http)"
        try:
            self.policy.check_host(parsed.host or "")
        except ForbiddenAddressError as error:
            return str(error)
        return None

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout_seconds: float
    ) -> Answer:
        """Send one request. Faults of the sink or of the network never raise."""
        refusal = self.refusal_of(url)
        if refusal is not None:
            return Answer(0, fault=refusal, is_forbidden=True)
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=self._settings.connect_seconds or None)
        try:
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False, timeout=timeout
            ) as response:
                content = await self._bounded(response)
                return Answer(
                    response.status, {name.lower(): value for name, value in response.headers.items()}, content
                )
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:  # TimeoutError is an OSError
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            if isinstance(cause, ForbiddenAddressError):
                return Answer(0, fault=str(cause), is_forbidden=True)
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

    async def close(self) -> None:
        await self._session.close()
