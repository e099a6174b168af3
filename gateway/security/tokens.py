"""JWT as credentials: signature, issuer, audience and times are all checked, and a missing one is wrong.

Invariants: only algorithms of the settings are accepted (`none` cannot be one, and shared secrets never mix with public
keys). A key is used with the algorithms of its type only. A token without `exp` is refused.
"""

from __future__ import annotations

from typing import Any, Final

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from entrepot.domain.access.evaluator import compile_statements
from entrepot.domain.access.model import Statement, is_user_name
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.records import statements_of_claim
from entrepot.gateway.security.token_keys import TokenKeys
from entrepot.gateway.security.token_shape import VerifiedToken, is_token_shaped
from entrepot.gateway.settings.security import SecuritySettings

LONGEST_EXP_SECONDS: Final = 253_402_300_799
"""The end of the year 9999: a larger `exp` is invalid."""


class TokenVerifier:
    """The check of one issuer's tokens."""

    def __init__(self, settings: SecuritySettings, keys: TokenKeys, clock: Clock) -> None:
        assert settings.jwt_issuer is not None
        assert settings.jwt_audience is not None
        self._settings = settings
        self._keys = keys
        self._registry = jws.JWSRegistry(algorithms=list(settings.jwt_algorithms))
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: clock.now_ms() // 1000,
            leeway=settings.jwt_leeway_seconds,
            iss={"essential": True, "value": settings.jwt_issuer},
            aud={"essential": True, "value": settings.jwt_audience},
            exp={"essential": True},
        )

    async def verify(self, token: bytes) -> VerifiedToken:
        """Verify a token. Raises UNAUTHORIZED, without telling the client more."""
        if not is_token_shaped(token):
            raise _refusal("it is not a token")
        try:
            key_id = jws.extract_compact(token).headers().get("kid")
            keys = await self._keys.keys(key_id if isinstance(key_id, str) else None)
            claims = self._decoded(token, keys)
            self._claims.validate(claims)
            return self._told(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _refusal(type(error).__name__) from None

    def _decoded(self, token: bytes, keys: KeySet) -> dict[str, Any]:
        def key_of(signature: Any) -> Key:
            headers = signature.headers()
            if "kid" in headers or len(keys.keys) == 1:
                return keys.get_by_kid(headers.get("kid")) if len(keys.keys) > 1 else keys.keys[0]
            raise ValueError("the token names no key, and there are several")

        return jwt.decode(token, key_of, algorithms=list(self._settings.jwt_algorithms), registry=self._registry).claims

    def _told(self, claims: dict[str, Any]) -> VerifiedToken:
        settings = self._settings
        name = claims.get(settings.jwt_username_claim)
        if not isinstance(name, str) or not is_user_name(name):
            raise _refusal(f"the claim {settings.jwt_username_claim} is not the name of a user")
        expires = claims["exp"]
        if not 0 <= expires <= LONGEST_EXP_SECONDS:
            raise _refusal("exp is not a time")
        statements: tuple[Statement, ...] = ()
        if settings.jwt_acl_claim is not None and settings.jwt_acl_claim in claims:
            try:
                statements = statements_of_claim(claims[settings.jwt_acl_claim])
                compile_statements(name, statements)
            except EntrepotError as error:
                raise _refusal(error.message) from None
        return VerifiedToken(name, int((expires + settings.jwt_leeway_seconds) * 1000), statements)


def _refusal(reason: str) -> EntrepotError:
    return EntrepotError(Code.UNAUTHORIZED, f"the token is not valid: {reason}")
