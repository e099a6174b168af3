"""HandleMint: makes receipt handles and checks that they are genuine.

The window decides if a genuine handle is still current.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Final

from entrepot.domain.base64url import decode_text, encode_text
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.domain.ports import MAX_POP_MESSAGES
from entrepot.domain.receipt_handle import (
    INDEX_TEXT_LENGTH,
    MAC_SIZE,
    RUN,
    RUN_TEXT_LENGTH,
    HandleRoute,
    index_text,
    read_index,
)

MAX_CONTEXTS: Final = 10_000
_INDEX_OF: Final = {index_text(index): index for index in range(MAX_POP_MESSAGES)}
Run = tuple[int, int, int, int]
"""A run: queue id, first queue offset, count, stamp."""


def _refusal(why: str) -> EntrepotError:
    return EntrepotError(Code.INVALID_RECEIPT_HANDLE, f"the receipt handle {why}")


@dataclass(slots=True)
class HandleContext:
    """The part common to all handles of one (topic, group): the text of the route, and the MAC begun with it."""

    prefix: str
    mac: Any

    def mint(self, queue_id: int, first: int, count: int, stamp: int) -> str:
        """Return the prefix of the handles of a run (MAX_RUN at most); each handle adds its index."""
        run = RUN.pack(queue_id, first, count, stamp)
        mac = self.mac.copy()
        mac.update(run)
        return self.prefix + encode_text(run + mac.digest())

    def check(self, handles: Sequence[str]) -> list[tuple[int, int, int] | EntrepotError]:
        """Return for each handle (queue id, queue offset, stamp), or INVALID_RECEIPT_HANDLE if it is not genuine."""
        found: list[tuple[int, int, int] | EntrepotError] = []
        runs: dict[str, Run | EntrepotError] = {}
        head, length = "", 0
        run: Run | EntrepotError = _refusal("is none")
        for handle in handles:
            if len(handle) != length or not handle.startswith(head):
                head, length = handle[:-INDEX_TEXT_LENGTH], len(handle)
                known = runs.get(head)
                run = runs[head] = self._checked(head) if known is None else known
            if isinstance(run, tuple):
                queue_id, first, count, stamp = run
                index = _INDEX_OF.get(handle[-INDEX_TEXT_LENGTH:])
                if index is None:
                    index = read_index(handle)
                if index < count:
                    found.append((queue_id, first + index, stamp))
                else:
                    found.append(_refusal("is forged or corrupted"))
            else:
                found.append(run)
        return found

    def _checked(self, head: str) -> Run | EntrepotError:
        """Return the run of a handle prefix, if this store made it for this topic and group."""
        if head[:-RUN_TEXT_LENGTH] != self.prefix:
            return _refusal("was not given out for this topic and group")
        try:
            data = decode_text(head[-RUN_TEXT_LENGTH:])
        except ValueError:
            return _refusal("is none")
        mac = self.mac.copy()
        mac.update(data[: RUN.size])
        if not compare_digest(mac.digest(), data[RUN.size :]):
            return _refusal("is forged or corrupted")
        run: Run = RUN.unpack(data[: RUN.size])
        return run


class HandleMint:
    """The contexts by topic and group, with the key of one store."""

    def __init__(self, key: bytes, store_id: bytes, broker_name: str) -> None:
        self._key = key
        self.store_id = store_id
        self._broker_name = broker_name
        self._contexts: OrderedDict[tuple[str, str, int, tuple[int, int]], HandleContext] = OrderedDict()

    def context(self, topic: str, group: str, recovery_epoch: int, since: tuple[int, int]) -> HandleContext:
        """Return the context. `since` (of topic and group) sets both apart from earlier ones of their names."""
        key = (topic, group, recovery_epoch, since)
        context = self._contexts.get(key)
        if context is None:
            route = HandleRoute(DEFAULT_NAMESPACE, topic, group, self._broker_name, self.store_id, recovery_epoch)
            data = route.encode()
            mac = blake2b(data + struct.pack(">QQ", *since), key=self._key, digest_size=MAC_SIZE)
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.popitem(last=False)
            context = self._contexts[key] = HandleContext(encode_text(data), mac)
        return context
