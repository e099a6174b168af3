"""Consenting: the receiver of deliveries agrees to them later (WebHook specification 4.1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.gateway.events.webhooks.handshake import CALLBACK_PATH
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import NO_CHANGE
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import OPEN
from entrepot.gateway.operations.row.shapes import Head, PlainName
from entrepot.protocols.cloudevents import webhook

if TYPE_CHECKING:
    from entrepot.gateway.events.webhooks.handshake import Handshake

_PATH: Final = "/{namespace}/{id}/{token}"
_SUMMARY: Final = "Consent to deliveries as their receiver"


class ConsentHead(Head, frozen=True, rename="kebab"):
    webhook_allowed_rate: Annotated[
        str | None, Meta(description="Requests per minute that are taken; `*`: any number")
    ] = None


CONSENT: Final = Noun("subscriptions", CALLBACK_PATH, prefix="")


class Consenting:
    """The operation of receivers, by a link or by a request.  The token is the right."""

    def __init__(self, handshake: Handshake) -> None:
        self._handshake = handshake

    @CONSENT.post(_PATH, "consent", _SUMMARY, OPEN, change=NO_CHANGE, outcome="Consented")  # the receiver's answer
    @CONSENT.get(_PATH, "consentByLink", _SUMMARY, OPEN, outcome="Consented")
    async def consent(
        self, namespace: PlainName, id_: PlainName, token: PlainName, head: ConsentHead, asked: Asked
    ) -> None:
        subscription = self._handshake.of_callback(namespace, id_, token)
        if subscription is None:
            raise MissingError("consent-not-found", "Nobody asked for this consent", "there is nothing to consent to")
        if asked.is_head:
            return
        rate = webhook.rate_of(head.webhook_allowed_rate)
        if rate == 0:
            raise bad_request(f"{webhook.ALLOWED_RATE}: must be a positive whole number, or *")
        await self._handshake.grant(subscription, webhook.Consent(rate))
