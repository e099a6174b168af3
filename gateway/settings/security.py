"""The settings of identity and rights."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from entrepot.domain.access.evaluator import is_loopback
from entrepot.domain.access.model import is_user_name
from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import GIB, KIB, MIB, Bytes, Count, Seconds, Table

ALGORITHMS: Final = (
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""Allowed signature algorithms of tokens; `none` is not among them."""


class SecuritySettings(Table):
    """Authentication and access (docs/security.md)."""

    anonymous: Literal["loopback", "never", "always"] = Field(
        "loopback",
        description="Anonymous clients: from this machine while no user is defined, never, or always (with the "
        "rights in the policies of anonymous)",
    )
    open_health: bool = Field(True, description="Allow everybody to read /healthz and /readyz")
    open_metrics: bool = Field(False, description="Allow everybody to read /metrics")
    setup_token_file: Path | None = Field(
        None,
        description="File for the setup token, which creates the first user; unset: setup-token in store.data_dir, "
        "or printed at the start without a local store",
    )
    initial_admin: str | None = Field(
        None, description="Super user to create before the listeners open, if there is none yet"
    )
    initial_admin_password: SecretStr | None = Field(
        None, description="Password of initial_admin; unset: generated into initial-admin-password in store.data_dir"
    )
    initial_admin_password_file: Path | None = Field(
        None, description="File with the password of initial_admin in its first line"
    )
    max_age_seconds: float = Field(
        300,
        ge=0,
        allow_inf_nan=False,
        description="Time for which logins go on while the broker that keeps users is away or cut off; 0: for ever",
    )
    argon2_memory_bytes: int = Field(
        19 * MIB, ge=8 * KIB, le=4 * GIB, description="Memory of one password hash (Argon2)"
    )
    argon2_iterations: int = Field(2, ge=1, le=100, description="Passes of one password hash (Argon2)")
    argon2_parallelism: int = Field(1, ge=1, le=64, description="Lanes of one password hash (Argon2)")
    password_threads: int = Field(2, ge=1, le=64, description="Number of concurrent password checks")
    max_waiting_logins: Count = Field(1000, description="Maximum waiting password checks; more are refused")
    max_failed_logins: Count = Field(
        20, description="Failed logins of one name from one address in a minute; more are refused unchecked"
    )
    scram_iterations: int = Field(
        65_536,
        ge=4096,
        le=1_000_000,
        description="Iterations of the SCRAM-SHA-256 keys of new passwords; each login costs the client as many",
    )
    cache_seconds: Seconds = Field(60, description="Cache time of a valid password or token")
    max_cached_logins: Count = Field(100_000, description="Maximum cached logins")
    max_cached_decisions: Count = Field(
        65_536, description="Maximum cached access decisions, all dropped when a right changes"
    )
    audit_entries: Count = Field(
        10_000, description="Number of entries in the audit list: the newest refusals, and as many changes"
    )
    audit_per_second: Count = Field(
        100, description="Maximum audited failures and denials each second; more are only counted"
    )
    jwt_issuer: str | None = Field(None, description="Required issuer (iss) of tokens; setting it enables tokens")
    jwt_audience: str | None = Field(None, description="Required audience (aud) of tokens")
    jwt_algorithms: list[str] = Field(["RS256", "ES256"], description="Accepted signature algorithms of tokens")
    jwt_key_file: Path | None = Field(
        None, description="File of the token keys: PEM or a JWK set; reloaded when it changes"
    )
    jwks_url: str | None = Field(None, description="URL of the token keys (JWK set); https, or on this machine")
    jwks_refresh_seconds: Seconds = Field(300, description="Interval between fetches of the token keys")
    jwks_timeout_seconds: float = Field(5, gt=0, allow_inf_nan=False, description="Longest wait for the token keys")
    jwks_max_bytes: Bytes = Field(262_144, description="Maximum size of the token keys")
    jwt_username_claim: str = Field("sub", min_length=1, description="Claim with the user name")
    jwt_acl_claim: str | None = Field(None, description="Claim with access statements for the token, besides policies")
    jwt_leeway_seconds: int = Field(0, ge=0, le=300, description="Tolerated clock difference in exp and nbf")
    certificate_identity: Literal["none", "cn", "san_uri", "san_dns"] = Field(
        "none", description="Part of a client certificate with the user name"
    )
    certificate_needs_user: bool = Field(True, description="Require a defined user of the certificate's name")

    @field_validator("initial_admin_password")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        """Treat an empty environment variable as no password."""
        return value if value is not None and value.get_secret_value() else None

    @property
    def takes_tokens(self) -> bool:
        """True if JWT are accepted."""
        return self.jwt_issuer is not None

    @model_validator(mode="after")
    def _is_consistent(self) -> SecuritySettings:
        self._check_admin()
        self._check_tokens()
        return self

    def _check_admin(self) -> None:
        passwords = (self.initial_admin_password, self.initial_admin_password_file)
        if self.initial_admin is None:
            return
        if not is_user_name(self.initial_admin):
            raise ValueError(f"initial_admin: {self.initial_admin!r} is not the name of a user")
        if None not in passwords:
            raise ValueError("initial_admin has initial_admin_password or initial_admin_password_file, and not both")

    def _check_tokens(self) -> None:
        unknown = [name for name in self.jwt_algorithms if name not in ALGORITHMS]
        if unknown or not self.jwt_algorithms:
            raise ValueError(f"jwt_algorithms: {unknown!r}; there are {', '.join(ALGORITHMS)}")
        if len({name.startswith("HS") for name in self.jwt_algorithms}) > 1:
            raise ValueError("jwt_algorithms: shared secrets (HS) and public keys are not mixed")
        given = (self.jwt_key_file is not None) + (self.jwks_url is not None)
        if self.jwt_issuer is None:
            if given:
                raise ValueError("jwt_issuer and jwt_audience are missing beside the keys of tokens")
            return
        if self.jwt_audience is None or given != 1:
            raise ValueError("jwt_issuer needs jwt_audience, and one of jwt_key_file and jwks_url")
        if self.jwks_url is not None:
            fault = fault_of_url(self.jwks_url, ("https", "http"))
            if fault is not None:
                raise ValueError(f"jwks_url: {fault}")
            url = urlsplit(self.jwks_url)
            host = url.hostname or ""
            if url.scheme == "http" and not (host == "localhost" or is_loopback(host)):
                raise ValueError("jwks_url: must be https, but for a server on this machine")
