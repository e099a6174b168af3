"""The settings of facts: key-values beside a cluster that cannot keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, field_validator, model_validator

from entrepot.gateway.settings.addresses import is_address
from entrepot.gateway.settings.table import Table

ETCD: Final = "etcd://"
FILE: Final = "file:"


class FactsSettings(Table):
    """Users, sessions, bindings and all other key-values in front of a RocketMQ cluster (docs/etcd.md)."""

    url: str = Field(
        "",
        description="Keeper of key-values: etcd://host:2379,host2:2379/, or file:<directory> for a gateway alone; "
        "empty: none",
    )
    user: str = Field("", description="User of etcd, if it asks for passwords")
    password: SecretStr = Field(SecretStr(""), description="Password of that user")
    ca: Path | None = Field(None, description="Certificate authority of etcd's members, which are then asked by TLS")
    certificate: Path | None = Field(None, description="Certificate shown to etcd's members")
    key: Path | None = Field(None, description="Private key of that certificate")

    @field_validator("url")
    @classmethod
    def _is_a_keeper(cls, value: str) -> str:
        if value.startswith(FILE):
            if not _path_of(value):
                raise ValueError("file: is followed by the path of a directory of this machine")
        elif value and not (value.startswith(ETCD) and all(map(_is_member, _addresses_of(value)))):
            raise ValueError("etcd://host:port,host2:port/ or file:<directory> is wanted")
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> FactsSettings:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together")
        if self.password.get_secret_value() and not self.user:
            raise ValueError("a password needs a user")
        if not self.addresses and (self.user or self.ca is not None or self.certificate is not None):
            raise ValueError("a user and certificates are shown to etcd, which url does not name")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """host:port of etcd's members; empty: another keeper, or none."""
        return tuple(_addresses_of(self.url)) if self.url.startswith(ETCD) else ()

    @property
    def data_dir(self) -> Path | None:
        """The data directory of a keeper in this process; None: another one, or none."""
        return Path(_path_of(self.url)) if self.url.startswith(FILE) else None


def _is_member(text: str) -> bool:
    """True for host:port, without a user and a path."""
    return is_address(text) and text.isprintable() and not set(text) & set("@/?# ")


def _addresses_of(url: str) -> list[str]:
    return url.removeprefix(ETCD).removesuffix("/").split(",")


def _path_of(url: str) -> str:
    path = url.removeprefix(FILE)
    if not path.startswith("//"):
        return path
    return path[2:] if path.startswith("///") else ""  # else a host is named
