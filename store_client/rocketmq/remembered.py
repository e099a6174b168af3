"""Memory of what this gateway did at a cluster, which no broker tells: with a limit, beyond which the oldest goes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(OrderedDict[Key, Value]):
    """A table of at most `most` entries (`RocketMqSettings.max_remembered`), in the order they were first made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            self.popitem(last=False)
