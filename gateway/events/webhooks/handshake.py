"""Handshake: a receiver is asked for consent to a subscription's events (WebHook specification, section 4).

A compare-and-set of the subscription's state decides between gateways: one asks at a time, and less often after each
refusal. The receiver may also agree later, by calling back.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.gateway.events.subscriptions.record import OFF, StateRecord, Subscription, key_of
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.settings import WebhookSettings
from entrepot.protocols.cloudevents import webhook

GRANTED: Final = "granted"
DENIED: Final = "denied"
ASK_SECONDS: Final = 10.0
FIRST_WAIT_MS: Final = 60_000
LONGEST_WAIT_MS: Final = 3_600_000
CALLBACK_PATH: Final = "/webhooks/consent"

log = structlog.get_logger(__name__)


class Handshake:
    """The handshakes of all subscriptions."""

    def __init__(
        self, subscriptions: Subscriptions, client: SinkClient, settings: WebhookSettings, clock: Clock
    ) -> None:
        self._subscriptions, self._client = subscriptions, client
        self._settings, self._clock = settings, clock

    def wait_ms(self, subscription: Subscription) -> int | None:
        """Milliseconds until the receiver is to be asked (again), or None for never."""
        state = self._subscriptions.state(subscription)
        if subscription.record.handshake == OFF or state.consent == GRANTED or state.suspended:
            return None
        if not state.tries:
            return 0
        pause_ms = min(FIRST_WAIT_MS << min(state.tries - 1, 10), LONGEST_WAIT_MS)
        return max(state.asked_ms + pause_ms - self._clock.now_ms(), 0)

    async def ask(self, subscription: Subscription) -> None:
        """Ask the receiver, unless another gateway does."""
        before = self._subscriptions.state(subscription)
        asking = msgspec.structs.replace(
            before,
            asked_ms=self._clock.now_ms(),
            tries=before.tries + 1,
            callback_token=before.callback_token or secrets.token_urlsafe(24),
        )
        if not await self._subscriptions.put_state(subscription, asking):
            return
        record, settings = subscription.record, self._settings
        headers = {webhook.REQUEST_ORIGIN: settings.origin}
        if record.rate_per_minute:
            headers[webhook.REQUEST_RATE] = str(record.rate_per_minute)
        if settings.public_url:
            token = f"{record.namespace}/{record.id}/{asking.callback_token}"
            headers[webhook.REQUEST_CALLBACK] = f"{settings.public_url}{CALLBACK_PATH}/{token}"
        answer = await self._client.request("OPTIONS", record.sink, headers, None, ASK_SECONDS, subscription.sink_tls)
        consent = webhook.consent_of(answer.headers, settings.origin) if 200 <= answer.status < 300 else None
        if consent is not None:
            await self.grant(subscription, consent)
            return
        log.info(
            "a receiver does not consent", subscription=subscription.key, status=answer.status, problem=answer.fault
        )
        now = self._subscriptions.state(subscription)
        if now.consent != GRANTED:  # it may have called back meanwhile
            await self._subscriptions.put_state(subscription, msgspec.structs.replace(now, consent=DENIED))

    async def grant(self, subscription: Subscription, consent: webhook.Consent) -> None:
        """Store the receiver's consent."""
        for _ in range(3):
            now = self._subscriptions.state(subscription)
            made = msgspec.structs.replace(now, consent=GRANTED, allowed_rate=consent.rate_per_minute or 0)
            if await self._subscriptions.put_state(subscription, made):
                return

    def of_callback(self, namespace: str, subscription_id: str, token: str) -> Subscription | None:
        """The subscription whose receiver calls back, or None where the token is wrong."""
        found = self._subscriptions.of_key(key_of(namespace, subscription_id))
        if found is None:
            return None
        expected = self._subscriptions.state(found).callback_token
        return found if expected and hmac.compare_digest(expected.encode(), token.encode()) else None


def is_allowed(subscription: Subscription, state: StateRecord) -> bool:
    """True if events may be sent."""
    if state.suspended:
        return False
    return subscription.record.handshake != "required" or state.consent == GRANTED
