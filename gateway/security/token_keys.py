"""Keys for tokens' signatures: from a file, or from a URL.

Invariant: without readable keys, no token is right. A file that has become unreadable is refused at once. Keys of a URL
are used while they are fresh, and not beyond that if fetching them again fails.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol

import httpx2
import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey, import_key

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.url import target_of
from entrepot.domain.written_text import written_text
from entrepot.gateway.settings.security import SecuritySettings

MAX_KEY_FILE_BYTES: Final = 1 << 20
MIN_REFETCH_MS: Final = 10_000
"""Interval between fetches for unknown key ids, in milliseconds: attackers can name any."""

_log = structlog.get_logger(__name__)


class TokenKeys(Protocol):
    """A source of keys."""

    async def keys(self, key_id: str | None) -> KeySet:
        """Return the present keys; `key_id` is in the token. Raises UNAUTHORIZED where there are none."""


class FileKeys:
    """PEM or a JWK set in a file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: KeySet | None = None

    async def keys(self, key_id: str | None) -> KeySet:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._keys is None or seen != self._seen:
                if status.st_size > MAX_KEY_FILE_BYTES:
                    raise ValueError("the file is too large")
                self._keys, self._seen = parse_keys(written_text(self._path.read_bytes()).encode()), seen
        except (OSError, ValueError, TypeError, KeyError, JoseError) as error:
            self._keys = None
            _log.error("the keys of tokens cannot be read", path=str(self._path), error=str(error))
            raise _no_keys() from None
        return self._keys


class UrlKeys:
    """A JWK set behind a URL."""

    def __init__(self, settings: SecuritySettings, clock: Clock) -> None:
        assert settings.jwks_url is not None
        self._url = settings.jwks_url
        self._timeout_seconds = settings.jwks_timeout_seconds
        self._fresh_ms = int(settings.jwks_refresh_seconds * 1000)
        self._max_bytes = settings.jwks_max_bytes
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched_ms = 0
        self._tried_ms: int | None = None
        self._lock = asyncio.Lock()

    async def keys(self, key_id: str | None) -> KeySet:
        async with self._lock:
            now_ms = self._clock.now_ms()
            is_fresh = self._keys is not None and now_ms < self._fetched_ms + self._fresh_ms
            may_try = self._tried_ms is None or now_ms >= self._tried_ms + MIN_REFETCH_MS
            if may_try and not (is_fresh and self._knows(key_id)):
                self._tried_ms = now_ms
                fetched = await self._fetch()
                if fetched is not None:
                    self._keys, self._fetched_ms, is_fresh = fetched, now_ms, True
            if self._keys is None or not is_fresh:
                raise _no_keys()
            return self._keys

    def _knows(self, key_id: str | None) -> bool:
        assert self._keys is not None
        return key_id is None or any(key.kid == key_id for key in self._keys)

    async def _fetch(self) -> KeySet | None:
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                httpx2.AsyncClient(trust_env=False, follow_redirects=False) as client,
                client.stream(
                    "GET",
                    self._url,
                    timeout=self._timeout_seconds,
                    extensions={"target": target_of(self._url).encode()},
                ) as response,
            ):
                if response.status_code != 200:
                    raise ValueError(f"the answer is {response.status_code}")
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > self._max_bytes:
                        raise ValueError("the answer is too large")
            return parse_keys(body)
        except (httpx2.HTTPError, TimeoutError, OSError, ValueError, TypeError, KeyError, JoseError) as error:
            _log.error("the keys of tokens cannot be fetched", url=self._url, error=repr(error))
            return None


def parse_keys(content: bytes) -> KeySet:
    """Parse a PEM text, a JWK or a JWK set. Raises ValueError, TypeError, KeyError or JoseError."""
    text = content.strip()
    if text.startswith(b"-----BEGIN"):
        for kind in (RSAKey, ECKey, OKPKey):
            try:
                return KeySet([kind.import_key(text)])
            except (ValueError, TypeError, JoseError):
                continue
        raise ValueError("the PEM text is not an RSA, EC or Ed25519 key")
    document = orjson.loads(text)
    if not isinstance(document, dict):
        raise ValueError("this is not a JWK set")
    if "keys" in document:
        return KeySet.import_key_set({"keys": document["keys"]})
    return KeySet([import_key(document)])


def open_keys(settings: SecuritySettings, clock: Clock) -> TokenKeys:
    """Return the keys that the settings name."""
    return FileKeys(settings.jwt_key_file) if settings.jwt_key_file is not None else UrlKeys(settings, clock)


def _no_keys() -> EntrepotError:
    return EntrepotError(Code.UNAUTHORIZED, "tokens cannot be checked now")
