"""SinkClient: the one HTTP client of all deliveries. A URL is checked before anything is sent.

The HTTP library (`sink_session`) is loaded in a thread with the first request: a gateway without webhooks pays nothing
for it, and one with webhooks starts sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from yarl import URL

from entrepot.gateway.events.subscriptions.record import USUAL_TLS, TlsChoice
from entrepot.gateway.events.webhooks.addresses import AddressPolicy, ForbiddenAddressError
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.events.webhooks.sink_tls import SinkTls, UnusableTlsError
from entrepot.gateway.settings import WebhookSettings

if TYPE_CHECKING:
    from entrepot.gateway.events.webhooks.sink_session import SinkSession

SESSION: Final = "entrepot.gateway.events.webhooks.sink_session"


class SinkClient:
    """An HTTP client, made on the event loop that it is used on."""

    def __init__(self, settings: WebhookSettings) -> None:
        self.policy = AddressPolicy(settings.allowed_networks)
        self.tls = SinkTls(settings.tls)
        self._settings = settings
        self._session: SinkSession | None = None

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
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_seconds: float,
        tls: TlsChoice = USUAL_TLS,
    ) -> Answer:
        """Send one request. Faults of the sink, of the network and of the choice of `tls` never raise."""
        refusal = self.refusal_of(url)
        if refusal is not None:
            return Answer(0, fault=refusal, is_forbidden=True)
        if self._session is None:
            module = await asyncio.to_thread(import_module, SESSION)
            if self._session is None:  # another request may have been quicker
                self._session = module.SinkSession(self.policy, self._settings)
        try:
            context = await asyncio.to_thread(self.tls.context, tls) if tls.name else None
        except UnusableTlsError as error:
            return Answer(0, fault=str(error), is_sinks=False)
        return await self._session.request(method, url, headers, body, timeout_seconds, context)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
