"""Authentication of HTTP requests: Basic and Bearer credentials, either as a key of Event Grid's clients, or a login.

Invariants: every request has a principal before its body is read.  A request without credentials must use a known host
name, or is refused: DNS rebinding pages have no credentials.  A header's principal is cached for
`security.cache_seconds`, by a keyed hash, until any user changes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.asgi import Scope, Send
from entrepot.gateway.http.requests.login_cookie import login_token
from entrepot.gateway.http.requests.problems import UnknownHostError
from entrepot.gateway.operations.row import rights
from entrepot.gateway.security.credentials import CertificateIdentity, Credentials, identity_of
from entrepot.gateway.security.login_sessions import LoginSessions
from entrepot.gateway.security.security import PrincipalChange, Security
from entrepot.gateway.transport.source import SOURCE
from entrepot.gateway.transport.web_origin import WebOrigins

PROTOCOL: Final = rights.PROTOCOL
_SHARED_KEY: Final = b"sharedaccesskey"
"""Event Grid's scheme: `SharedAccessKey <key>`.  A key is `<name>:<password>` of a user, or a token."""
_CACHE_CONTROL: Final = b"cache-control"
_Found = TypeVar("_Found", bound=Principal | None)


class HttpAccess:
    """Identity and rights for routes."""

    def __init__(
        self,
        security: Security,
        clock: Clock,
        origins: WebOrigins | None = None,
        logins: LoginSessions | None = None,
    ) -> None:
        """`origins`: the known host names; None: localhost and addresses.  `logins`: those of browsers, by cookie."""
        self.security, self._logins = security, logins
        self._origins = origins or WebOrigins()
        self._clock = clock
        self._keep_ms = int(security.settings.cache_seconds * 1000)
        self._known: dict[tuple[bytes, str], tuple[int, Principal]] = {}
        security.watch_principals(self._forget)
        if logins is not None:
            logins.on_end.append(self._known.clear)

    def at_once(self, scope: Scope) -> Principal | None:
        """Return a request's principal if no waiting is needed, else None.  Raises UnknownHostError, and
        TOO_MANY_REQUESTS after too many wrong passwords.  A request with the setup token is anonymous here."""
        source = source_of(scope)
        if not self.security.is_current:
            return None
        principal = self.security.anonymous_at_once(source)
        if principal is not None and not self.security.settings.takes_tokens:
            if not self._origins.knows_host(scope["headers"]):
                raise UnknownHostError(_host(scope))
            return principal
        shown = _authorization(scope) or _certificate_text(scope)
        if shown is None:
            return self._at_known_host(scope, principal)
        found = self._known.get((self.security.digest(shown), source))
        if found is None or self._clock.now_ms() >= found[0]:
            return None
        self.security.failed_logins.check(found[1].name, source)
        return self._at_known_host(scope, found[1])

    async def principal(self, scope: Scope) -> Principal:
        """Return a request's principal.  Raises as `Security.authenticate`, and UnknownHostError."""
        header, source = _authorization(scope), source_of(scope)
        known = None
        if self.security.is_current:
            shown = self._by_login(scope, source) if header is None else self._by_setup_token(header, source)
            known = shown or self.at_once(scope)
        if known is not None:
            return known
        credentials = _credentials(header, source)
        if header is None:
            credentials = replace(credentials, certificate=_certificate(scope), is_tls=scope.get("scheme") == "https")
        principal = await self.security.authenticate(credentials)
        if (told := header or _certificate_text(scope)) is not None:
            self._remember((self.security.digest(told), source), principal)
        return self._at_known_host(scope, principal)

    def _remember(self, key: tuple[bytes, str], principal: Principal) -> None:
        while len(self._known) >= self.security.settings.max_cached_logins:
            del self._known[next(iter(self._known))]
        until_ms = self._clock.now_ms() + self._keep_ms
        if principal.expires_at_ms is not None:
            until_ms = min(until_ms, principal.expires_at_ms)
        self._known[key] = (until_ms, principal)

    def shows_credentials(self, scope: Scope) -> bool:
        """True for a request with credentials, a certificate or a login, right or not.  Raises as `login_token`."""
        return any(shown(scope) is not None for shown in (_authorization, login_token, _certificate_text))

    async def known(self, scope: Scope) -> Principal | None:
        """Return the principal that a browser has already, or None.  Nothing shown is not a refused login."""
        if not self.shows_credentials(scope):
            return self.at_once(scope)
        try:
            return await self.principal(scope)
        except EntrepotError as refusal:
            if refusal.code is not Code.UNAUTHORIZED:
                raise
            return None

    def _by_login(self, scope: Scope, source: str) -> Principal | None:
        """The principal of a browser's login.  A login that is over counts as none where anybody may come in."""
        token = None if self._logins is None else login_token(scope)
        if self._logins is None or token is None:
            return None
        key = (self.security.digest(token.encode("latin-1")), source)
        found = self._known.get(key)
        if found is not None and self._clock.now_ms() < found[0]:
            return found[1]
        try:
            principal = self._logins.login_of(token, source).principal
        except EntrepotError:
            if self.security.anonymous_at_once(source) is None:
                raise
            return None
        self._remember(key, principal)
        return principal

    def _by_setup_token(self, header: bytes, source: str) -> Principal | None:
        if self.security.setup_token.value is None:
            return None
        try:
            return self.security.setup_token.principal_of(_credentials(header, source))
        except EntrepotError:  # other credentials: an open gateway may admit any
            return None

    def _at_known_host(self, scope: Scope, principal: _Found) -> _Found:
        if principal is not None and principal.is_anonymous and not self._origins.knows_host(scope["headers"]):
            raise UnknownHostError(_host(scope))
        return principal

    def check(self, principal: Principal, action: Action, resource_type: ResourceType, name: str) -> None:
        """Raise FORBIDDEN unless the action is allowed."""
        self.security.check(principal, action, resource_type, name, PROTOCOL)

    def check_administration(self, principal: Principal) -> None:
        """Raise FORBIDDEN unless the principal may change users and policies."""
        if not self.security.may_administer(principal, PROTOCOL):
            raise EntrepotError(Code.FORBIDDEN, "users and policies are for super users")

    def _forget(self, change: PrincipalChange) -> None:
        self._known.clear()


def kept_private(scope: Scope, send: Send) -> Send:
    """Mark successes as private where the query has a token, so that no cache shares them (WebHook specification 3.2,
    RFC 6750 2.3)."""
    if b"access_token=" not in (scope.get("query_string") or b""):
        return send

    async def send_private(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and 200 <= message["status"] < 300:
            headers = list(message.get("headers", ()))
            said = [value for name, value in headers if name.lower() == _CACHE_CONTROL]
            others = [header for header in headers if header[0].lower() != _CACHE_CONTROL]
            message = {**message, "headers": [*others, (_CACHE_CONTROL, b", ".join([b"private", *said]))]}
        await send(message)

    return send_private


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")


def source_of(scope: Scope) -> str:
    """The peer's address; empty where it has none."""
    client = scope.get("client")
    return client[0] if client else ""


def _certificate(scope: Scope) -> CertificateIdentity | None:
    """The names in the client's certificate, if its connection has one."""
    source = scope.get("state", {}).get(SOURCE)
    return None if source is None else identity_of(source)


def _certificate_text(scope: Scope) -> bytes | None:
    """A text for a certificate's names, by which its principal is remembered: no header begins like it."""
    found = _certificate(scope)
    return None if found is None else b"\0certificate " + repr(found).encode("utf-8", "surrogatepass")


def _authorization(scope: Scope) -> bytes | None:
    """The Authorization header or query token.  Raises UNAUTHORIZED for several: a proxy may have checked another."""
    found: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if found is not None:
                raise EntrepotError(Code.UNAUTHORIZED, "there is more than one Authorization header")
            found = value
    query: bytes = scope.get("query_string") or b""
    if b"access_token=" in query:
        # for browsers' EventSource and WebSocket, which set no header (WebHook specification 3.2, RFC 6750 2.3)
        tokens = parse_qs(query.decode("latin-1")).get("access_token", [])
        if tokens and (found is not None or len(tokens) > 1):
            raise EntrepotError(Code.UNAUTHORIZED, "there is more than one token, or an Authorization header besides")
        if tokens:
            found = b"Bearer " + tokens[0].encode()
    return found


def _credentials(header: bytes | None, source: str) -> Credentials:
    if header is None:
        return Credentials(PROTOCOL, source)
    scheme, _, rest = header.partition(b" ")
    rest = rest.strip()
    if scheme.lower() == b"bearer" and rest:
        return Credentials(PROTOCOL, source, password=rest, bearer=True)
    if scheme.lower() == _SHARED_KEY and rest and b":" not in rest:
        return Credentials(PROTOCOL, source, password=rest, bearer=True)
    if scheme.lower() in (b"basic", _SHARED_KEY):
        try:
            plain = rest if scheme.lower() == _SHARED_KEY else base64.b64decode(rest, validate=True)
            name, colon, password = plain.partition(b":")
            if colon:
                return Credentials(PROTOCOL, source, name.decode(), password)
        except (binascii.Error, UnicodeDecodeError):
            pass
    raise EntrepotError(
        Code.UNAUTHORIZED, "the Authorization header is neither Basic nor Bearer credentials, nor a key"
    )
