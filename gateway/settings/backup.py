"""The settings of a broker's backup of itself."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from entrepot.gateway.settings.table import Table
from entrepot.gateway.settings.tier import fault_of_store


class BackupSettings(Table):
    """The place of a broker's backup, for `entrepot cluster backup` (docs/operations.md). Credentials are in the
    environment."""

    place: str = Field(
        "",
        description="Place of all brokers' backups: an absolute path, s3://bucket/prefix, gs:// or az://; empty: none",
    )
    key_file: Path | None = Field(None, description="File with the key that encrypts the backup (store backup key)")
    plain: bool = Field(False, description="Allow a backup in an object store that is not encrypted")
    endpoint: str = Field("", description="Endpoint of the object store, http(s)://host:port, unless the provider's")
    region: str = Field("", description="Region of the object store; empty: from the environment")
    allow_http: bool = Field(False, description="Allow an endpoint without TLS")

    @field_validator("place")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if value and not value.startswith("/") and (fault := fault_of_store(value)) is not None:
            raise ValueError(f"an absolute path, or {fault}")
        return value

    @model_validator(mode="after")
    def _is_safe(self) -> BackupSettings:
        is_away = bool(self.place) and not self.place.startswith(("/", "file://"))
        if is_away and self.key_file is None and not self.plain:
            raise ValueError("an object store is on other machines: set key_file, or plain")
        if self.endpoint.startswith("http:") and not self.allow_http:
            raise ValueError("endpoint is without TLS: set allow_http, or an https URL")
        return self
