"""The settings of facts: key-values beside a cluster that cannot keep them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, field_validator, model_validator

from entrepot.gateway.settings.addresses import is_address
from entrepot.gateway.settings.table import MIB, Table

ETCD: Final = "etcd://"
BROKERS: Final = "cluster://"
FILE: Final = "file:"
RETAINED_IN_ETCD_BYTES: Final = 128 * MIB
"""Retained messages in etcd, unless the settings say more: each gateway reads all of them at its start, and etcd keeps
every version until it compacts."""
_WANTED: Final = "etcd://host:port,host2:port/ or cluster://nameserver:port,nameserver2:port/"


@dataclass(frozen=True, slots=True)
class Keeper:
    """A keeper as its URL names it: members of etcd, name servers of our brokers, or a directory; one of the three."""

    members: tuple[str, ...] = ()
    name_servers: tuple[str, ...] = ()
    data_dir: Path | None = None

    @property
    def is_shared(self) -> bool:
        """True if several gateways may use it."""
        return self.data_dir is None


class FactsSettings(Table):
    """Users, sessions, bindings and all other key-values in front of a RocketMQ cluster (docs/etcd.md)."""

    url: str = Field(
        "",
        description="Keeper of key-values: etcd://host:2379,host2:2379/; cluster://host:port/ for brokers of "
        "Entrepôt by their name servers; file:<directory> for a gateway alone; empty: none",
    )
    sessions: str = Field(
        "", description="Another keeper for MQTT sessions and the leases of gateways: etcd:// or cluster://"
    )
    retained: str = Field("", description="Another keeper for retained messages: etcd:// or cluster://")
    held: str = Field(
        "", description="Another keeper for deliveries that RocketMQ's push consumers hold: etcd:// or cluster://"
    )
    user: str = Field("", description="User of etcd, if it asks for passwords")
    password: SecretStr = Field(SecretStr(""), description="Password of that user")
    ca: Path | None = Field(None, description="Certificate authority of etcd's members, which are then asked by TLS")
    certificate: Path | None = Field(None, description="Certificate shown to etcd's members")
    key: Path | None = Field(None, description="Private key of that certificate")

    @field_validator("url")
    @classmethod
    def _is_a_keeper(cls, value: str) -> str:
        if value and _keeper_of(value) is None:
            raise ValueError(f"{_WANTED} or file:<the path of a directory of this machine> is wanted")
        return value

    @field_validator("sessions", "retained", "held")
    @classmethod
    def _is_a_shared_keeper(cls, value: str) -> str:
        keeper = _keeper_of(value)
        if value and (keeper is None or not keeper.is_shared):
            raise ValueError(f"{_WANTED} is wanted")
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> FactsSettings:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together")
        if self.password.get_secret_value() and not self.user:
            raise ValueError("a password needs a user")
        keepers = [self.keeper, *self.keepers.values()]
        asks_etcd = any(each is not None and each.members for each in keepers)
        if not asks_etcd and (self.user or self.ca is not None or self.certificate is not None):
            raise ValueError("a user and certificates are shown to etcd, which no URL names")
        if self.keepers and (self.keeper is None or not self.keeper.is_shared):
            raise ValueError("facts of one family have a keeper of their own beside a shared one, which url names")
        return self

    @property
    def keeper(self) -> Keeper | None:
        """The keeper of all key-values but those of `keepers`; None: there is none."""
        return _keeper_of(self.url)

    @property
    def keeps_retained_in_etcd(self) -> bool:
        """True if retained messages are in etcd."""
        keeper = self.keepers.get("retained", self.keeper)
        return keeper is not None and bool(keeper.members)

    @property
    def keepers(self) -> dict[str, Keeper]:
        """Keepers by family, where they are others than `keeper`."""
        named = {"sessions": self.sessions, "retained": self.retained, "held": self.held}
        found = {name: _keeper_of(url) for name, url in named.items() if url and url != self.url}
        return {name: keeper for name, keeper in found.items() if keeper is not None}


def _keeper_of(url: str) -> Keeper | None:
    """Return the keeper of a URL; None for text that is none."""
    if url.startswith(FILE):
        path = _path_of(url)
        return Keeper(data_dir=Path(path)) if path else None
    for scheme in (ETCD, BROKERS):
        if url.startswith(scheme):
            addresses = tuple(url.removeprefix(scheme).removesuffix("/").split(","))
            if not all(map(_is_member, addresses)):
                return None
            return Keeper(members=addresses) if scheme == ETCD else Keeper(name_servers=addresses)
    return None


def _is_member(text: str) -> bool:
    """True for host:port, without a user and a path."""
    return is_address(text) and text.isprintable() and not set(text) & set("@/?# ")


def _path_of(url: str) -> str:
    path = url.removeprefix(FILE)
    if not path.startswith("//"):
        return path
    return path[2:] if path.startswith("///") else ""  # else a host is named
