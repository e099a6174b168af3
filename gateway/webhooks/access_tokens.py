"""AccessTokens: what a sink is shown in Authorization.  Tokens of OAuth 2 (RFC 6749 4.4 and 6) are got when they are
needed, and kept until shortly before their end."""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import quote_plus, urlencode

import msgspec

from domain.clock import Clock
from domain.timestamp import to_epoch_ms
from gateway.subscriptions.record import Credential, Subscription
from gateway.webhooks.sink_client import SinkClient

MARGIN_MS: Final = 30_000
"""So long before its end a token is not used any more."""
DEFAULT_LIFE_SECONDS: Final = 3600
TOKEN_SECONDS: Final = 15.0
MAX_TOKENS: Final = 100_000


class TokenError(Exception):
    """No token is to be had now."""


class _TokenAnswer(msgspec.Struct):
    """RFC 6749 5.1."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float = DEFAULT_LIFE_SECONDS


_DECODER: Final = msgspec.json.Decoder(_TokenAnswer, strict=False)


class AccessTokens:
    """Of all subscriptions."""

    def __init__(self, client: SinkClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kept: dict[tuple[str, Credential], tuple[str, int]] = {}

    async def authorization(self, subscription: Subscription) -> str | None:
        """The header's value; None for none.  Raises TokenError."""
        credential = subscription.record.credential
        if credential is None:
            return None
        if credential.credentialtype == "PLAIN":
            pair = f"{credential.identifier}:{credential.secret}".encode()
            return "Basic " + base64.b64encode(pair).decode()
        if credential.credentialtype == "ACCESSTOKEN" or self._is_fresh(credential):
            return f"{credential.accesstokentype} {credential.accesstoken}"
        key = (subscription.key, credential)
        kept = self._kept.get(key)
        if kept is not None and self._clock.now_ms() < kept[1]:
            return kept[0]
        value, until_ms = await self._ask(credential)
        while len(self._kept) >= MAX_TOKENS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (value, until_ms)
        return value

    def forget(self, subscription: Subscription) -> bool:
        """The sink does not take it (401); whether another one can be had."""
        credential = subscription.record.credential
        return credential is not None and self._kept.pop((subscription.key, credential), None) is not None

    def _is_fresh(self, credential: Credential) -> bool:
        """Whether the token that came with a REFRESHTOKEN is still good."""
        if not (credential.accesstoken and credential.accesstokenexpiresutc):
            return False
        ends_ms = to_epoch_ms(credential.accesstokenexpiresutc)
        return ends_ms is not None and self._clock.now_ms() < ends_ms - MARGIN_MS

    async def _ask(self, credential: Credential) -> tuple[str, int]:
        fields = {"grant_type": "client_credentials"}
        if credential.credentialtype == "REFRESHTOKEN":
            fields = {"grant_type": "refresh_token", "refresh_token": credential.refreshtoken}
        if credential.scope:
            fields["scope"] = credential.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if credential.identifier:
            pair = f"{quote_plus(credential.identifier)}:{quote_plus(credential.secret)}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        body = urlencode(fields).encode()
        answer = await self._client.request("POST", credential.tokenendpoint, headers, body, TOKEN_SECONDS)
        if answer.status != 200:
            raise TokenError(f"the token endpoint: {answer.fault or answer.status}")
        try:
            told = _DECODER.decode(answer.body)
        except msgspec.MsgspecError as error:
            raise TokenError(f"the token endpoint: its answer is none: {error}") from None
        if not told.access_token.isprintable() or not told.access_token.isascii():
            raise TokenError("the token endpoint: its token is none")
        kind = "Bearer" if told.token_type.lower() == "bearer" else told.token_type
        life_ms = int(max(told.expires_in, 0) * 1000)
        return f"{kind} {told.access_token}", self._clock.now_ms() + max(life_ms - MARGIN_MS, life_ms // 2)
