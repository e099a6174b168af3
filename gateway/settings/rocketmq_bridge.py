"""The settings of bridges to RocketMQ clusters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from entrepot.domain.definitions.consumer_group import parse_start
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_namespace, check_stored_name, check_topic_name, split_name
from entrepot.domain.written_text import WrittenTextError, written_text
from entrepot.gateway.settings.bridge import Directed, check_names
from entrepot.gateway.settings.stores import RocketMqPlace
from entrepot.gateway.settings.table import Table

MAX_REMOTES: Final = 16
MAX_RULES: Final = 100
MAX_PATTERNS: Final = 1000
"""Limits of the clusters, of the rules for one of them, and of the topics of one rule."""
ANY: Final = "*"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")


class RocketMqRule(Directed):
    """Rule of a bridge: the topics to carry, their direction and their names.

    A topic `<remote_prefix>x` there is `<local_prefix>x` here.
    """

    direction: Literal["in", "out", "both"] = Field(
        description="Direction: in is from the cluster to here, out is from here to the cluster"
    )
    topics: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        max_length=MAX_PATTERNS,
        description="Topics without the prefixes: names, or beginnings with `*` at the end; `team/*` is a namespace",
    )
    local_prefix: str = Field("", description="Prefix of names here, removed on the way out")
    remote_prefix: str = Field("", description="Prefix of names at the cluster, removed on the way in")
    start: str = Field(
        "latest", description="Start of a topic that was not carried yet: earliest, latest or an RFC 3339 time"
    )

    @field_validator("topics")
    @classmethod
    def _are_patterns(cls, value: list[str]) -> list[str]:
        for pattern in value:
            _check_name(pattern.removesuffix(ANY) + ("x" if pattern.endswith(ANY) else ""), pattern)
        return value

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        for prefix in (self.local_prefix, self.remote_prefix):
            if prefix:
                _check_name(prefix, prefix)
                if split_name(prefix)[1] != prefix:
                    raise ValueError(f"the prefix {prefix!r} is that of a topic, without a namespace")
        return self

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, value: str) -> str:
        try:
            parse_start(value)
        except EntrepotError as error:
            raise ValueError(error.message) from None
        return value


class RocketMqRemote(RocketMqPlace):
    """A RocketMQ cluster to bridge to: its place, credentials and rules."""

    name: str = Field(description="Name of the bridge: 1 to 40 characters out of a-z A-Z 0-9 _ -")
    name_servers: list[str] = Field(min_length=1, description="Addresses of the cluster's name servers, as host:port")
    secret_file: Path | None = Field(None, description="File with the secret of `access_key`, read at every connect")
    confirms_less_safe: bool = Field(
        True,
        description="Take a message as carried that its broker has, and has not flushed or replicated in time; without "
        "it such a message is sent again and again",
    )
    max_backoff_seconds: float = Field(
        30, ge=0.1, le=3600, description="Longest wait before a reconnect; the first is half a second"
    )
    rules: list[RocketMqRule] = Field(min_length=1, max_length=MAX_RULES, description="Rules of the topics to carry")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not 1 to 40 characters out of a-z A-Z 0-9 _ -")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.secret_file is not None and not self.access_key:
            raise ValueError("secret_file needs access_key")
        return self

    def secret(self) -> str:
        """Read the secret.  Raises BAD_REQUEST."""
        if self.secret_file is None:
            return ""
        try:
            return written_text(self.secret_file.read_bytes()).partition("\n")[0].rstrip("\r")
        except (OSError, WrittenTextError) as error:
            raise EntrepotError(Code.BAD_REQUEST, f"cannot read the secret in {self.secret_file}: {error}") from error


class RocketMqBridgeSettings(Table):
    """Bridges that carry topics from and to Apache RocketMQ clusters (docs/move-from-rocketmq.md)."""

    remotes: list[RocketMqRemote] = Field([], max_length=MAX_REMOTES, description="Clusters to bridge to, with rules")

    @field_validator("remotes")
    @classmethod
    def _have_names_of_their_own(cls, value: list[RocketMqRemote]) -> list[RocketMqRemote]:
        check_names(value)
        return value


def _check_name(name: str, written: str) -> None:
    try:
        check_stored_name(name, Code.ILLEGAL_TOPIC)
        namespace, plain = split_name(name)
        check_namespace(namespace)
        check_topic_name(plain)
    except EntrepotError as error:
        raise ValueError(f"{written!r} cannot be a topic, nor begin one: {error.message}") from None
