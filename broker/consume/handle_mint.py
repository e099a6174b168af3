"""HandleMint: makes receipt handles and checks that it made them.

Whether a genuine handle is still current is not its business: that is the window's.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Final

from domain.errors import Code, EntrepotError
from domain.names import DEFAULT_NAMESPACE
from domain.receipt_handle import MAC_SIZE, TAIL, TAIL_TEXT_LENGTH, HandleRoute, decode_tail, encode_text

MAX_CONTEXTS: Final = 10_000
_pack_tail = TAIL.pack
_unpack_tail = TAIL.unpack


@dataclass(slots=True)
class HandleContext:
    """What all handles of one (topic, group) share: the text of the route, and the MAC begun with it."""

    prefix: str
    mac: Any

    def mint(self, queue_id: int, queue_offset: int, attempt: int) -> str:
        tail = _pack_tail(queue_id, queue_offset, attempt)
        mac = self.mac.copy()
        mac.update(tail)
        return self.prefix + encode_text(tail + mac.digest())

    def check(self, handle: str) -> tuple[int, int, int]:
        """(queue id, queue offset, attempt) of a genuine handle.  Raises INVALID_RECEIPT_HANDLE."""
        if handle[:-TAIL_TEXT_LENGTH] != self.prefix:
            raise EntrepotError(
                Code.INVALID_RECEIPT_HANDLE, "the receipt handle was not given out for this topic and group"
            )
        try:
            data = decode_tail(handle)
        except ValueError:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "this is not a receipt handle") from None
        tail = data[: TAIL.size]
        mac = self.mac.copy()
        mac.update(tail)
        if not compare_digest(mac.digest(), data[TAIL.size :]):
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is forged or harmed")
        queue_id, queue_offset, attempt = _unpack_tail(tail)
        return queue_id, queue_offset, attempt


class HandleMint:
    """Contexts by topic and group, with the key of one store."""

    def __init__(self, key: bytes, store_id: bytes, broker_name: str) -> None:
        self._key = key
        self._store_id = store_id
        self._broker_name = broker_name
        self._contexts: OrderedDict[tuple[str, str, int, tuple[int, int]], HandleContext] = OrderedDict()

    def context(self, topic: str, group: str, recovery_epoch: int, since: tuple[int, int]) -> HandleContext:
        """`since` (of topic and group) sets both apart from earlier ones of their names."""
        key = (topic, group, recovery_epoch, since)
        context = self._contexts.get(key)
        if context is None:
            route = HandleRoute(DEFAULT_NAMESPACE, topic, group, self._broker_name, self._store_id, recovery_epoch)
            data = route.encode()
            mac = blake2b(data + struct.pack(">QQ", *since), key=self._key, digest_size=MAC_SIZE)
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.popitem(last=False)
            context = self._contexts[key] = HandleContext(encode_text(data), mac)
        return context
