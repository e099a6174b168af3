"""AccessTokens: the Authorization values for sinks.

Tokens of OAuth 2 (RFC 6749 4.4 and 6) are got when they are needed, and kept until shortly before their end.
"""

from __future__ import annotations

import asyncio
import base64
import math
from typing import Final, TypeVar
from urllib.parse import quote_plus, urlencode
from weakref import WeakValueDictionary

import msgspec

from entrepot.domain.clock import Clock
from entrepot.domain.timestamp import to_epoch_ms
from entrepot.gateway.events.subscriptions.record import Credential, Subscription, TlsChoice
from entrepot.gateway.events.webhooks.sink_client import SinkClient

MARGIN_MS: Final = 30_000
"""Time before its end at which a token is no longer used, in milliseconds."""
DEFAULT_LIFE_SECONDS: Final = 3600
LONGEST_LIFE_SECONDS: Final = 86_400 * 30
TOKEN_SECONDS: Final = 15.0
MAX_TOKENS: Final = 100_000


class TokenError(Exception):
    """A token cannot be got now."""


class _TokenAnswer(msgspec.Struct):
    """The token endpoint's answer (RFC 6749 5.1)."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float = DEFAULT_LIFE_SECONDS
    refresh_token: str = ""


_Key = tuple[str, Credential]
"""(subscription, credential): a token got for one credential does not serve another."""
_Kept = TypeVar("_Kept")
_DECODER: Final = msgspec.json.Decoder(_TokenAnswer, strict=False)


class AccessTokens:
    """The tokens of all subscriptions."""

    def __init__(self, client: SinkClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kept: dict[_Key, tuple[str, int]] = {}
        self._refused: dict[_Key, None] = {}
        """Keys whose sink refused the token of the credential."""
        self._rotated: dict[_Key, str] = {}
        """Refresh tokens that came with a token, in place of the credential's (RFC 6749 6)."""
        self._asking: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    async def authorization(self, subscription: Subscription) -> str | None:
        """Return the header's value, or None for no header. Raises TokenError."""
        credential = subscription.record.credential
        if credential is None:
            return None
        if credential.credentialtype == "PLAIN":
            pair = f"{credential.identifier}:{credential.secret}".encode()
            return "Basic " + base64.b64encode(pair).decode()
        key = (subscription.key, credential)
        if credential.credentialtype == "ACCESSTOKEN" or (key not in self._refused and self._is_fresh(credential)):
            return _given(credential)
        async with self._asking.setdefault(key, asyncio.Lock()):  # many events begin at once: the first asks for all
            kept = self._kept.get(key)
            if kept is not None and self._clock.now_ms() < kept[1]:
                return kept[0]
            value, until_ms = await self._ask(key, subscription.token_tls)
            _put(self._kept, key, (value, until_ms))
        return value

    def forget(self, subscription: Subscription, shown: str | None) -> bool:
        """Forget a value that the sink refused (401); True if another one is there or can be got."""
        credential = subscription.record.credential
        if credential is None or not credential.tokenendpoint:
            return False
        key = (subscription.key, credential)
        if key in self._kept and self._kept[key][0] == shown:
            del self._kept[key]
        elif shown == _given(credential):
            _put(self._refused, key, None)
        return True

    def _is_fresh(self, credential: Credential) -> bool:
        """True if the token that came with a REFRESHTOKEN is still valid."""
        if not (credential.accesstoken and credential.accesstokenexpiresutc):
            return False
        ends_ms = to_epoch_ms(credential.accesstokenexpiresutc)
        return ends_ms is not None and self._clock.now_ms() < ends_ms - MARGIN_MS

    async def _ask(self, key: _Key, tls: TlsChoice) -> tuple[str, int]:
        _, credential = key
        fields = {"grant_type": "client_credentials"}
        if credential.credentialtype == "REFRESHTOKEN":
            refresh_token = self._rotated.get(key, credential.refreshtoken)
            fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        if credential.scope:
            fields["scope"] = credential.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if credential.identifier:
            pair = f"{quote_plus(credential.identifier)}:{quote_plus(credential.secret)}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        body = urlencode(fields).encode()
        answer = await self._client.request("POST", credential.tokenendpoint, headers, body, TOKEN_SECONDS, tls)
        if answer.status != 200:
            raise TokenError(f"the token endpoint: {answer.fault or answer.status}")
        try:
            told = _DECODER.decode(answer.body)
        except msgspec.MsgspecError:
            raise TokenError("the token endpoint: its answer holds no token") from None
        if not told.access_token.isprintable() or not told.access_token.isascii():
            raise TokenError("the token endpoint: its token is not printable ASCII")
        kind = "Bearer" if told.token_type.lower() == "bearer" else told.token_type
        if told.refresh_token and credential.credentialtype == "REFRESHTOKEN":
            _put(self._rotated, key, told.refresh_token)
        if not math.isfinite(told.expires_in):
            raise TokenError("the token endpoint: its token has no time")
        life_ms = int(min(max(told.expires_in, 0), LONGEST_LIFE_SECONDS) * 1000)
        return f"{kind} {told.access_token}", self._clock.now_ms() + max(life_ms - MARGIN_MS, life_ms // 2)


def _given(credential: Credential) -> str:
    return f"{credential.accesstokentype} {credential.accesstoken}"


def _put(kept: dict[_Key, _Kept], key: _Key, value: _Kept) -> None:
    """Keep a value, in place of the oldest one where there is no room."""
    while len(kept) >= MAX_TOKENS and key not in kept:
        del kept[next(iter(kept))]
    kept[key] = value
