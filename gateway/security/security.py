"""Security: the one decision point of every listener.

Invariants: a listener asks for each operation, and gets True or False at once. Nothing is allowed before users and
policies are known. A decision is remembered only until any user or policy changes; a token's end is checked every time.
A principal has rights only while its credential holds: a deleted or disabled user and a changed password end them,
whether or not the listener has noticed.

While no user is defined, everybody whom `security.anonymous` lets in may do everything but define users and policies,
unless there is a policy of `anonymous` or of everybody: then that holds. A client with the setup token may define them.

ADR 19: one decision point for every door.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.domain.access.evaluator import CompiledStatement, compile_statements, evaluate, may_be_known
from entrepot.domain.access.model import (
    ANONYMOUS,
    EVERYBODY,
    Action,
    Decision,
    Origin,
    Principal,
    Request,
    ResourceType,
)
from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import KeyValues
from entrepot.gateway.security.administration import Administration
from entrepot.gateway.security.audit import AuditLog
from entrepot.gateway.security.authentication import Authenticator, anonymous
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.directory import Directory, DirectoryChange
from entrepot.gateway.security.failed_logins import FailedLogins
from entrepot.gateway.security.initial_admin import PASSWORD_FILE_NAME, InitialAdmin
from entrepot.gateway.security.passwords import PasswordChecker
from entrepot.gateway.security.records import encode
from entrepot.gateway.security.scram import ScramExchange
from entrepot.gateway.security.setup_token import SetupToken
from entrepot.gateway.settings.security import SecuritySettings

if TYPE_CHECKING:
    from entrepot.gateway.security.tokens import TokenVerifier

MAX_REMEMBERED_SOURCES: Final = 1024

_WHY_ALL: Final = {Origin.ANONYMOUS: "no user is defined", Origin.SETUP: "the setup token"}
_log = structlog.get_logger(__name__)
_DecisionKey = tuple[Principal, Action, ResourceType, str | tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PrincipalChange:
    """A change of the rights of a name's principals (None: all); `is_revoked` ends their connections."""

    name: str | None
    is_revoked: bool

    def is_of(self, principal: Principal | None) -> bool:
        return principal is not None and self.name in (None, principal.name)


class Security:
    """Identity and rights over the key-values of a store."""

    def __init__(
        self, key_values: KeyValues, settings: SecuritySettings, clock: Clock, setup_token_file: Path | None = None
    ) -> None:
        """`setup_token_file` is used where the settings name none; a generated password is in a file beside it."""
        self.settings = settings
        self.audit = AuditLog(clock, settings.audit_entries, settings.audit_per_second)
        self._clock = clock
        self._passwords = PasswordChecker(settings)
        self._directory = Directory(key_values, self._changed, settings.max_age_seconds)
        self.setup_token = SetupToken(key_values, settings.setup_token_file or setup_token_file)
        tokens = _verifier(settings, clock) if settings.takes_tokens else None
        self.failed_logins = FailedLogins(clock, settings.max_failed_logins)
        self._authenticator = Authenticator(
            settings, self._directory, self._passwords, tokens, clock, self.failed_logins
        )
        self.administration = Administration(key_values, self._directory, self._passwords, self.audit, self.setup_token)
        beside = self.setup_token.path
        password_file = None if beside is None else beside.with_name(PASSWORD_FILE_NAME)
        self.initial_admin = InitialAdmin(self.administration, self._directory, settings, password_file)
        self.rights_version = 0
        """Number that grows with any change of users or policies: earlier decisions may not hold."""
        self._decisions: dict[_DecisionKey, bool] = {}
        self._anonymous: dict[str, Principal] = {}
        self._watchers: list[Callable[[PrincipalChange], None]] = []
        self._had_users = False
        self.is_open = False
        """True if every accepted client may do everything: no user, and no policy for all or for `anonymous`."""

    async def start(self, wait_seconds: float = 0) -> None:
        """Load users and policies, and make the first administrator where the settings name one. It is retried for
        `wait_seconds` while the keeper is away. Raises what the store raises: then no listener may open."""
        await self._passwords.prepare()
        await self._directory.start(wait_seconds)
        self.is_open = self._is_open()
        self._had_users = self._directory.has_users
        await self.initial_admin.ensure()
        if not self._directory.has_users:
            await self.setup_token.open(wait_seconds)
        if self._directory.has_users:  # perhaps by another gateway meanwhile, which may have ended the token before
            await self.setup_token.forget()
        if not self._directory.has_users and self.settings.anonymous == "always":
            _log.warning("everybody may do everything: no user is defined, and security.anonymous is always")

    def _is_open(self) -> bool:
        return self._directory.is_loaded and not (
            self._directory.has_users or self._directory.has_policy(ANONYMOUS) or self._directory.has_policy(EVERYBODY)
        )

    def close(self) -> None:
        """Refuse all from now on."""
        self.is_open = False
        self._directory.stop()
        self._passwords.close()
        self._forget()

    # -- who -----------------------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """True while users are known, and not for too long: what a listener remembers of them holds."""
        return self._directory.is_current

    async def authenticate(self, credentials: Credentials) -> Principal:
        """Authenticate a client. Raises UNAUTHORIZED (missing or wrong credentials), FORBIDDEN (the user is disabled),
        UNAVAILABLE (users are not known, or for too long), TOO_MANY_REQUESTS (too many logins wait)."""
        try:
            return await self._authenticator.recognise(credentials)
        except EntrepotError as refusal:
            self.login_refused(credentials, refusal)
            raise

    def login_refused(self, credentials: Credentials, refusal: EntrepotError) -> None:
        """Audit a refused login."""
        self.audit.refused(
            "login refused", credentials.username or "", credentials.source, credentials.protocol, refusal.message
        )

    def check_signature(self, credentials: Credentials, is_right: Callable[[str], bool]) -> None:
        """Check a client's signature with its user's key.  Raises UNAUTHORIZED, TOO_MANY_REQUESTS (too many have been
        wrong), UNAVAILABLE (users are not known)."""
        name = credentials.username or ""
        try:
            self._directory.check_current()
            self.failed_logins.check(name, credentials.source)
            user = self._directory.user(name)
            secret = None if user is None else user.signing_secret
            if not is_right(secret or "") or not secret:
                self.failed_logins.note(name, credentials.source)
                raise EntrepotError(Code.UNAUTHORIZED, "the access key or the signature is wrong")
        except EntrepotError as refusal:
            self.login_refused(credentials, refusal)
            raise

    def signed(self, credentials: Credentials) -> Principal:
        """The principal of a client with a right signature. Raises UNAUTHORIZED, FORBIDDEN (a disabled user)."""
        user = self._directory.user(credentials.username or "")
        if user is None or not user.is_enabled:
            refusal = EntrepotError(Code.UNAUTHORIZED, "there is no such user")
            if user is not None:
                refusal = EntrepotError(Code.FORBIDDEN, "the user is disabled")
            self.login_refused(credentials, refusal)
            raise refusal
        return Principal(user.name, Origin.PASSWORD, credentials.source, credentials.client_id, user.credential)

    def scram(self, credentials: Credentials) -> ScramExchange:
        """Begin a SCRAM-SHA-256 exchange with a client; the name comes in its first message."""
        return ScramExchange(
            self._directory,
            self._passwords,
            credentials,
            self.settings.scram_iterations,
            self.login_refused,
            self.failed_logins,
        )

    def digest(self, secret: bytes) -> bytes:
        """A keyed hash of credentials, for listeners to remember them by."""
        return self._passwords.digest(b"shown", secret)

    def anonymous_at_once(self, source: str) -> Principal | None:
        """The anonymous principal of an address while no user is defined, without waiting; else None. It holds for any
        credentials but the setup token; where tokens are accepted, only for clients without credentials."""
        if self._directory.has_users or not self._directory.is_current:
            return None
        principal = self._anonymous.get(source)
        if principal is None and self._authenticator.takes_anonymous(source):
            if len(self._anonymous) >= MAX_REMEMBERED_SOURCES:
                self._anonymous.clear()
            principal = self._anonymous[source] = anonymous(source)
        return principal

    def takes_anonymous(self, source: str) -> bool:
        """True if clients from this address may come in without credentials."""
        return self._authenticator.takes_anonymous(source)

    # -- what ----------------------------------------------------------------------------------------------------

    def allows(
        self,
        principal: Principal,
        action: Action,
        resource_type: ResourceType,
        name: str,
        protocol: str = "",
        instead: str = "",
    ) -> bool:
        """True if the action is allowed; for `name` and `instead` see `domain.access.model`. A denial is audited."""
        if principal.expires_at_ms is None and self._decisions.get((principal, action, resource_type, name)):
            return True  # the usual case: every publish but the first
        is_allowed = self._decided(principal, action, resource_type, name, instead)
        if not is_allowed:
            self.note_denied(principal, action, resource_type, name, protocol)
        return is_allowed

    def may_know(self, principal: Principal, resource_type: ResourceType, name: str) -> bool:
        """True if the principal may learn of the resource: it may do something to some of it."""
        return self._decided(principal, Action.ALL, resource_type, name)

    def note_denied(
        self, principal: Principal, action: Action, resource_type: ResourceType, name: str, protocol: str
    ) -> None:
        """Audit a denial that a listener has made of several answers."""
        self._denied(principal, protocol, action, f"{resource_type}:{name}")

    def check(
        self,
        principal: Principal,
        action: Action,
        resource_type: ResourceType,
        name: str,
        protocol: str = "",
        instead: str = "",
    ) -> None:
        """Raise FORBIDDEN unless the action is allowed."""
        if not self.allows(principal, action, resource_type, name, protocol, instead):
            raise refusal_of(action, resource_type, name)

    def why(
        self, principal: Principal, action: Action, resource_type: ResourceType, name: str, instead: str = ""
    ) -> Decision:
        """The present decision, with its reason."""
        found = self.statements_for(principal)
        if isinstance(found, Decision):
            return found
        return evaluate(principal, Request(action, resource_type, name, instead), found)

    def rights_of(self, name: str) -> bytes:
        """The stored record and policy of a name, which change with its password and rights; empty without them."""
        user, policy = self._directory.user(name), self._directory.policy(name)
        return b"\n".join(b"" if each is None else encode(each) for each in (user, policy))

    def may_administer(self, principal: Principal, protocol: str = "") -> bool:
        """True for super users, who alone see and change users and policies, since these rights give all."""
        is_allowed = self._directory.is_loaded and self.lost(principal) is None and self.is_super(principal)
        if not is_allowed:
            self._denied(principal, protocol, Action.ALL, "users and policies")
        return is_allowed

    def principal_named(self, subject: str, source: str, client_id: str) -> Principal:
        """The principal that a subject would be, without asking it to authenticate."""
        if subject == ANONYMOUS:
            return anonymous(source, client_id)
        user = self._directory.user(subject)
        if user is None:
            return Principal(subject, Origin.TOKEN, source, client_id)
        return Principal(subject, Origin.PASSWORD, source, client_id, user.credential)

    def watch_principals(self, callback: Callable[[PrincipalChange], None]) -> Callable[[], None]:
        """Call back after rights have changed; return a function that stops it.

        A listener ends the connections of revoked principals, and checks the subscriptions of the others again. It also
        watches the end of tokens itself (`Principal.expires_at_ms`).
        """
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback) if callback in self._watchers else None

    def statements_for(self, principal: Principal) -> Decision | tuple[Sequence[CompiledStatement], ...]:
        """The statements that decide, or the decision where no statement matters."""
        directory = self._directory
        if not directory.is_loaded:
            return Decision(False, "users and policies are not known")
        refusal = self.lost(principal)
        if refusal is not None:
            return Decision(False, refusal)
        if self.is_super(principal):
            return Decision(True, _WHY_ALL.get(principal.origin, "a super user"))
        statements = directory.statements(principal.name)
        if statements is None:
            return Decision(False, "a policy cannot be read")
        return (compile_statements(principal.name, principal.statements), *statements)

    # -- inside --------------------------------------------------------------------------------------------------

    def _decided(
        self, principal: Principal, action: Action, resource_type: ResourceType, name: str, instead: str = ""
    ) -> bool:
        """The remembered decision; `ALL`, which nobody asks for, stands for `may_know`."""
        if principal.expires_at_ms is not None and self._clock.now_ms() >= principal.expires_at_ms:
            return False
        key = (principal, action, resource_type, (name, instead) if instead else name)
        remembered = self._decisions.get(key)
        if remembered is None:
            if len(self._decisions) >= self.settings.max_cached_decisions:
                self._decisions.clear()
            if action is Action.ALL:
                remembered = self._may_know(principal, resource_type, name)
            else:
                remembered = self.why(principal, action, resource_type, name, instead).is_allowed
            self._decisions[key] = remembered
        return remembered

    def _may_know(self, principal: Principal, resource_type: ResourceType, name: str) -> bool:
        found = self.statements_for(principal)
        if isinstance(found, Decision):
            return found.is_allowed
        return may_be_known(principal, resource_type, name, found)

    def lost(self, principal: Principal) -> str | None:
        """The reason why the principal's credential no longer holds, or None."""
        if principal.expires_at_ms is not None and self._clock.now_ms() >= principal.expires_at_ms:
            return "the token is over"
        if principal.is_anonymous:
            return None if self._authenticator.takes_anonymous(principal.source) else "clients need a user"
        if principal.origin is Origin.SETUP:
            return "the setup token is over: there is a user" if self._directory.has_users else None
        if not self._directory.has_user(principal.name):
            if principal.origin is Origin.TOKEN:
                return None
            if principal.origin is Origin.CERTIFICATE and not self.settings.certificate_needs_user:
                return None
            return "there is no such user"
        user = self._directory.user(principal.name)
        if user is None or not user.is_enabled:
            return "the user is disabled"
        if principal.origin in (Origin.PASSWORD, Origin.SCRAM) and principal.credential != user.credential:
            return "the password has changed"
        return None

    def is_super(self, principal: Principal) -> bool:
        """True for super users, and those who count as such: everybody at an open gateway, and the setup token."""
        if principal.is_anonymous:
            return self.is_open
        if principal.origin is Origin.SETUP:
            return True
        user = self._directory.user(principal.name)
        return user is not None and user.is_super

    def _denied(self, principal: Principal, protocol: str, action: Action, resource: str) -> None:
        self.audit.refused("denied", principal.name, principal.source, protocol, "", action, resource)

    def _forget(self) -> None:
        self.rights_version += 1
        self.is_open = self._is_open()
        self._decisions.clear()
        self._anonymous.clear()

    def _changed(self, change: DirectoryChange) -> None:
        self._forget()
        if not self._directory.is_loaded:
            return
        if self._directory.has_users and not self._had_users:
            self.setup_token.end()
            self._tell(PrincipalChange(ANONYMOUS, is_revoked=self.settings.anonymous != "always"))
        self._had_users = self._directory.has_users
        if change.user is not None:
            self._tell(PrincipalChange(change.user, change.is_revoked))
        elif change.subject is not None:
            self._tell(PrincipalChange(None if change.subject == EVERYBODY else change.subject, is_revoked=False))

    def _tell(self, change: PrincipalChange) -> None:
        for fault in call_each(tuple(self._watchers), change):
            _log.error("a door failed to take in a change of rights", name=change.name, exc_info=fault)


def refusal_of(action: Action, resource_type: ResourceType, name: str) -> EntrepotError:
    """The refusal of an action that is not allowed."""
    return EntrepotError(Code.FORBIDDEN, f"{action} on {resource_type} {name[:160]!r} is not allowed")


def _verifier(settings: SecuritySettings, clock: Clock) -> TokenVerifier:
    """The verifier of tokens: its library is loaded where an issuer is trusted."""
    keys, tokens = (import_module(f"{__package__}.{name}") for name in ("token_keys", "tokens"))
    made: TokenVerifier = tokens.TokenVerifier(settings, keys.open_keys(settings, clock), clock)
    return made
