"""The settings of bridges to other MQTT brokers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from entrepot.domain.routing.topic_filter import is_valid_filter, is_valid_name, overlap
from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import KIB, MIB, Table

MAX_REMOTES: Final = 64
MAX_RULES: Final = 100
"""Limits of the brokers that are bridged to, and of the rules for one of them."""

WEEK_SECONDS: Final = 7 * 24 * 3600
DEFAULT_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

U16 = Annotated[int, Field(ge=1, le=65_535)]


class Directed(Table):
    """A rule with a direction, whatever it carries."""

    direction: Literal["in", "out", "both"]

    @property
    def is_in(self) -> bool:
        return self.direction != "out"

    @property
    def is_out(self) -> bool:
        return self.direction != "in"


class Named(Protocol):
    """A remote with a name."""

    @property
    def name(self) -> str: ...


def check_names(remotes: Sequence[Named]) -> None:
    """Raise ValueError where two remotes have one name."""
    names = [remote.name for remote in remotes]
    if len(set(names)) < len(names):
        raise ValueError("two remotes have one name")


class BridgeRule(Directed):
    """Rule of a bridge: the messages to carry, their direction and their names.

    The filter follows both prefixes: a name `<remote_prefix>x` there is `<local_prefix>x` here.
    """

    direction: Literal["in", "out", "both"] = Field(
        description="Direction: in is from the remote to here, out is from here to the remote"
    )
    filter: str = Field(description="MQTT topic filter of the messages, without the prefixes")
    local_prefix: str = Field("", description="Prefix of names here, removed on the way out")
    remote_prefix: str = Field("", description="Prefix of names at the remote, removed on the way in")
    qos: int = Field(1, ge=0, le=1, description="Maximum QoS; with 0 messages may be lost on the way")
    start: Literal["earliest", "latest"] = Field(
        "latest", description="Start of a new outgoing rule: earliest is all stored messages, latest is new ones only"
    )

    @model_validator(mode="after")
    def _has_filters(self) -> Self:
        for prefix in (self.local_prefix, self.remote_prefix):
            if prefix and not is_valid_name(prefix):
                raise ValueError(f"the prefix {prefix!r} cannot begin a topic name")
            if not is_valid_filter(prefix + self.filter):
                raise ValueError(f"{prefix + self.filter!r} is not an MQTT topic filter")
        if self.is_in and self.local_filter.startswith("$"):
            raise ValueError("names that begin with $ are the server's own: give them a local_prefix")
        return self

    @property
    def local_filter(self) -> str:
        return self.local_prefix + self.filter

    @property
    def remote_filter(self) -> str:
        return self.remote_prefix + self.filter


class BridgeRemote(Table):
    """A remote MQTT broker: its address, credentials, limits and rules."""

    name: str = Field(description="Name of the bridge: 1 to 64 characters out of a-z A-Z 0-9 _ -")
    url: str = Field(description="URL of the remote: mqtt://host[:port] or mqtts://host[:port]")
    username: str | None = Field(None, description="User name at the remote")
    password_file: Path | None = Field(None, description="File with the password, read at every connect")
    client_id: str = Field(
        "", description="Client identifier at the remote, the key of the session; empty: entrepot-bridge-<name>"
    )
    ca_file: Path | None = Field(None, description="Certificate authorities (PEM) instead of the system's")
    cert_file: Path | None = Field(None, description="Client certificate (PEM)")
    key_file: Path | None = Field(None, description="Private key (PEM) of the client certificate")
    version: Literal[4, 5] = Field(5, description="MQTT protocol level: 4 is 3.1.1")
    keep_alive_seconds: int = Field(60, ge=5, le=65_535, description="Keep-alive interval of the connection")
    session_expiry_seconds: int = Field(
        WEEK_SECONDS, ge=1, le=0xFFFF_FFFF, description="Session expiry interval at the remote (MQTT 5)"
    )
    receive_maximum: U16 = Field(1000, description="Maximum incoming messages that are not stored yet")
    max_packet_size_bytes: int = Field(
        4 * MIB + 64 * KIB,
        ge=1 * KIB,
        le=268_435_460,
        description="Maximum size of an incoming packet, announced to MQTT 5 remotes; a larger one ends the connection",
    )
    max_inflight_messages: U16 = Field(200, description="Maximum outgoing messages that are not acknowledged yet")
    max_backoff_seconds: float = Field(
        60, ge=0.1, le=3600, description="Longest wait before a reconnect; the first is half a second"
    )
    announce_bridge: bool = Field(
        False,
        description="Announce the bridge to a 3.1.1 remote (mosquitto's try_private), which then sends nothing back",
    )
    rules: list[BridgeRule] = Field(min_length=1, max_length=MAX_RULES, description="Rules of the messages to carry")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not 1 to 64 characters out of a-z A-Z 0-9 _ -")
        return value

    @field_validator("url")
    @classmethod
    def _is_a_broker(cls, value: str) -> str:
        if "@" in value:
            raise ValueError("credentials stand in username and password_file, not in the address")
        fault = fault_of_url(value, DEFAULT_PORTS)
        if fault is not None:
            raise ValueError(f"{value!r} is not mqtt://host[:port] or mqtts://host[:port]: {fault}")
        parts = urlsplit(value)
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(f"{value!r} is not mqtt://host[:port] or mqtts://host[:port]: it goes on after the port")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.uses_tls and (self.ca_file or self.cert_file or self.key_file):
            raise ValueError("certificates are for mqtts:// only")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs cert_file")
        if self.password_file is not None and self.username is None:
            raise ValueError("password_file needs username")
        if self.announce_bridge and self.version != 4:
            raise ValueError("announce_bridge is for version 4; MQTT 5 says it in the subscription")
        if self.version == 4 and not self.announce_bridge:
            self._check_no_echo()
        return self

    def _check_no_echo(self) -> None:
        """Refuse rules that make an echo: a 3.1.1 remote returns our messages, if we subscribe to their names."""
        for out in self.rules:
            for into in self.rules:
                if not (out.is_out and into.is_in):
                    continue
                if overlap(out.remote_filter.split("/"), into.remote_filter.split("/")):
                    raise ValueError(
                        f"what goes out to {out.remote_filter!r} would come back by {into.remote_filter!r}: "
                        "use version 5, other prefixes, or announce_bridge with a remote that knows it"
                    )

    @property
    def uses_tls(self) -> bool:
        return self.url.startswith("mqtts:")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]

    @property
    def session_name(self) -> str:
        """The client identifier: the same at every gateway, so that the session outlives a move of the bridge."""
        return self.client_id or f"entrepot-bridge-{self.name}"


class BridgeSettings(Table):
    """Bridges that carry messages from and to other MQTT brokers."""

    remotes: list[BridgeRemote] = Field([], max_length=MAX_REMOTES, description="Brokers to bridge to, with rules")

    @field_validator("remotes")
    @classmethod
    def _have_names_of_their_own(cls, value: list[BridgeRemote]) -> list[BridgeRemote]:
        check_names(value)
        return value
