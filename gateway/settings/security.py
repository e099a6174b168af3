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
    """Who may come in, and how they are recognised (docs/security.md)."""

    anonymous: Literal["loopback", "never", "always"] = Field(
        "loopback",
        description="Clients without a user: from this machine while no user is defined, never, or always (their "
        "rights are then those of the policies of anonymous)",
    )
    open_health: bool = Field(True, description="Whether /healthz and /readyz answer everybody")
    open_metrics: bool = Field(False, description="Whether /metrics answers everybody")
    setup_token_file: Path | None = Field(
        None,
        description="File for the token that defining the first user takes; without: setup-token in store.data_dir, "
        "where the store is there, else the start prints it",
    )
    initial_admin: str | None = Field(
        None, description="Super user that is made before the doors open, where there is no super user yet"
    )
    initial_admin_password: SecretStr | None = Field(
        None, description="Its password; without, one is made up: see initial-admin-password in store.data_dir"
    )
    initial_admin_password_file: Path | None = Field(None, description="File whose first line is its password")
    argon2_memory_bytes: int = Field(19 * MIB, ge=8 * KIB, le=4 * GIB, description="Memory of one password check")
    argon2_iterations: int = Field(2, ge=1, le=100, description="Passes of one password check")
    argon2_parallelism: int = Field(1, ge=1, le=64, description="Lanes of one password check")
    password_threads: int = Field(2, ge=1, le=64, description="Password checks at one time")
    max_waiting_logins: Count = Field(1000, description="Password checks that may wait; more are refused")
    scram_iterations: int = Field(
        4096, ge=4096, le=1_000_000, description="Iterations of the SCRAM-SHA-256 keys of new passwords"
    )
    cache_seconds: Seconds = Field(60, description="How long a password or token that was right need not be checked")
    max_cached_logins: Count = Field(100_000, description="Logins that are remembered so")
    max_cached_decisions: Count = Field(65_536, description="Decisions that are remembered until a right changes")
    audit_entries: Count = Field(10_000, description="Entries that the audit list keeps, the newest")
    audit_per_second: Count = Field(
        100, description="Failures and denials that are audited in a second; more are counted"
    )
    jwt_issuer: str | None = Field(None, description="iss that tokens must have; with it, tokens are taken")
    jwt_audience: str | None = Field(None, description="aud that tokens must have")
    jwt_algorithms: list[str] = Field(["RS256", "ES256"], description="Signatures that are taken")
    jwt_key_file: Path | None = Field(None, description="Keys of tokens: PEM or a JWK set; read again when it changes")
    jwks_url: str | None = Field(None, description="URL of the keys of tokens; https, or on this machine")
    jwks_refresh_seconds: Seconds = Field(300, description="Age at which the keys of the URL are fetched again")
    jwks_timeout_seconds: float = Field(5, gt=0, allow_inf_nan=False, description="Longest wait for the keys")
    jwks_max_bytes: Bytes = Field(262_144, description="Largest set of keys taken from the URL")
    jwt_username_claim: str = Field("sub", min_length=1, description="Claim with the name of the user")
    jwt_acl_claim: str | None = Field(
        None, description="Claim with statements that hold for the token besides policies"
    )
    jwt_leeway_seconds: int = Field(0, ge=0, le=300, description="Difference of clocks that is forgiven in exp and nbf")
    certificate_identity: Literal["none", "cn", "san_uri", "san_dns"] = Field(
        "none", description="Part of a client's certificate that is the name of its user"
    )
    certificate_needs_user: bool = Field(True, description="Whether a user of the certificate's name must be defined")

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
