"""Calls of the ports that a RocketMQ cluster cannot carry: they are refused with UNSUPPORTED.  Key-values may be served
by another keeper instead, such as the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents


def refuse(what: str, instead: str = "") -> NoReturn:
    """Raise UNSUPPORTED with the impossible action, and an alternative."""
    text = f"a RocketMQ cluster cannot {what}"
    raise EntrepotError(Code.UNSUPPORTED, f"{text}: {instead}" if instead else text)


class NoKeyValues:
    """Implements `domain.ports.KeyValues` with refusals, without a keeper."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        self._refuse()

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        self._refuse()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self._refuse()

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        self._refuse()

    @staticmethod
    def _refuse() -> NoReturn:
        refuse("keep key-values", "facts.url names what keeps them")
