"""Login of people in a browser: `/api/v1/session`, which sets, shows and ends a cookie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.access.model import EVERYTHING, Action, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import NO_CHANGE, TOLD_BELOW
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import OPEN, PROTOCOL
from entrepot.gateway.operations.row.shapes import Body, Shown, Time, shown_as
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.passwords import MAX_PASSWORD_BYTES
from entrepot.gateway.security.token_shape import MAX_TOKEN_BYTES
from entrepot.gateway.settings.version import own_version

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.security.login_sessions import LoginSessions
    from entrepot.gateway.security.security import Security

_SHOWN: Final = (Action.LIST, Action.GET, Action.CREATE, Action.UPDATE, Action.DELETE, Action.PUB, Action.SUB)
"""Actions of `may`, of those that a resource type has a page for."""
_NOT_KEPT: Final = {"cache-control": "no-store"}
"""Header of every answer about a login: no cache keeps it (RFC 9111, 5.2.2.5)."""
_Scope = MutableMapping[str, Any]


class LoginShown(Shown, frozen=True):
    """The user of this browser, and their rights to everything of a kind"""

    user: str | None
    is_anonymous: bool
    is_super: bool
    expires_at: Time | None
    setup_needed: bool
    tls: bool
    cluster: str
    gateway: str
    version: str
    may: list[str]


shown_as(
    LoginShown(
        user="bob",
        is_anonymous=False,
        is_super=False,
        expires_at="2026-12-01T08:00:00.000Z",
        setup_needed=False,
        tls=True,
        cluster="default",
        gateway="gw-1",
        version="1.0.0",
        may=[f"{ResourceType.CLUSTER}:{Action.LIST}"],
    )
)


class LoginBody(Body, frozen=True):
    """Credentials: a name with a password, or a token (JWT, or the setup token)."""

    name: Annotated[str, Meta(max_length=MAX_PASSWORD_BYTES)] = ""
    password: Annotated[str, Meta(max_length=MAX_PASSWORD_BYTES)] = ""
    token: Annotated[str, Meta(max_length=MAX_TOKEN_BYTES)] = ""


@dataclass(frozen=True, slots=True)
class Browsers:
    """A browser as the REST API knows it, by its request.  `check_host`: raises where a page of another name asks a
    gateway that is open to all.  `known`: who it is already, or None.  `login_token`: of its cookie, or None.
    `cookie`: the headers that set a token for so many seconds; 0: that end it.  `is_https`: it asked by TLS."""

    check_host: Callable[[_Scope], object]
    known: Callable[[_Scope], Awaitable[Principal | None]]
    login_token: Callable[[_Scope], str | None]
    cookie: Callable[[_Scope, str, int], dict[str, str]]
    is_https: Callable[[_Scope], bool]


SESSION: Final = Noun("session", "/session")


class Session:
    """The operations of logins, which are open to everybody."""

    def __init__(
        self, security: Security, logins: LoginSessions, clock: Clock, peers: Peers, browsers: Browsers
    ) -> None:
        self._security, self._logins, self._clock = security, logins, clock
        self._peers, self._browsers = peers, browsers

    @SESSION.get("", "getLogin", "Get the login of this browser, and what it may do", OPEN)
    async def show(self, asked: Asked) -> LoginShown:
        asked.answer_headers.update(_NOT_KEPT)
        return self._shown(asked, await self._browsers.known(asked.scope))

    @SESSION.post(
        "",
        "logIn",
        "Log in, in a browser",
        OPEN,
        change=TOLD_BELOW,
        example={"name": "bob", "password": "secret"},
    )
    async def log_in(self, asked: Asked, body: LoginBody) -> LoginShown:
        asked.answer_headers.update(_NOT_KEPT)  # also a refusal tells of a name
        self._browsers.check_host(asked.scope)
        principal = await self._recognised(asked.principal.source, body)
        token, expires_ms = self._logins.open(principal)
        self._security.audit.changed("logged in", principal.name, principal.source, "dashboard")
        shown = self._shown(asked, self._logins.login_of(token, principal.source).principal)
        seconds = max((expires_ms - self._clock.now_ms()) // 1000, 1)
        asked.answer_headers.update(self._browsers.cookie(asked.scope, token, seconds))
        return shown

    @SESSION.delete("", "logOut", "Log out, at every gateway", OPEN, change=NO_CHANGE)
    async def log_out(self, asked: Asked) -> None:
        asked.answer_headers.update(_NOT_KEPT)
        self._browsers.check_host(asked.scope)
        token = self._browsers.login_token(asked.scope)
        # here it is over, also where the others cannot be told
        asked.answer_headers.update(self._browsers.cookie(asked.scope, "", 0))
        if token is not None:
            await self._logins.end(token)

    async def _recognised(self, source: str, given: LoginBody) -> Principal:
        """Return the principal of a login form.  Raises UNAUTHORIZED, FORBIDDEN, TOO_MANY_REQUESTS, BAD_REQUEST."""
        security = self._security
        if given.token:
            shown = Credentials(PROTOCOL, source, password=given.token.encode("utf-8", "replace"), bearer=True)
            principal = security.setup_token.principal_of(shown)
            if principal is not None:
                return principal
        elif given.name and given.password:
            shown = Credentials(PROTOCOL, source, given.name, given.password.encode("utf-8", "surrogatepass"))
        else:
            raise bad_request("a login needs name and password, or token")
        principal = await security.authenticate(shown)
        if principal.is_anonymous:
            refusal = EntrepotError(Code.UNAUTHORIZED, "no user is defined: log in with the setup token")
            security.login_refused(shown, refusal)
            raise refusal
        return principal

    def _shown(self, asked: Asked, principal: Principal | None) -> LoginShown:
        expires_ms = None if principal is None else principal.expires_at_ms
        return LoginShown(
            user=None if principal is None else principal.name,
            is_anonymous=principal is not None and principal.is_anonymous,
            is_super=principal is not None and self._security.is_super(principal),
            expires_at=None if expires_ms is None else to_rfc3339(expires_ms),
            setup_needed=self._security.setup_token.value is not None,
            tls=self._browsers.is_https(asked.scope),
            cluster=asked.cluster,
            gateway=self._peers.name,
            version=own_version(),
            may=[] if principal is None else self._rights(asked.cluster, principal),
        )

    def _rights(self, cluster: str, principal: Principal) -> list[str]:
        """Return actions allowed on everything of a type, such as `Topic:LIST`; asking for them is not audited."""
        names = dict.fromkeys(ResourceType, EVERYTHING) | {ResourceType.CLUSTER: cluster}
        return [
            f"{kind}:{action}"
            for kind, name in names.items()
            for action in _SHOWN
            if self._security.why(principal, action, kind, name).is_allowed
        ]
