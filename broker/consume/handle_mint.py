"""HandleMint: makes receipt handles and checks that it made them.

Whether a genuine handle is still current is not its business: that is the window's.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Final

from domain.errors import Code, EntrepotError
from domain.names import DEFAULT_NAMESPACE
from domain.receipt_handle import MAC_SIZE, TAIL, TAIL_TEXT_LENGTH, HandleRoute, decode_tails, encode_text

MAX_CONTEXTS: Final = 10_000
_pack_tail = TAIL.pack
_pack_reset = struct.Struct(">Q").pack
_unpack_tail = TAIL.unpack
_TAIL_SIZE: Final = TAIL.size + MAC_SIZE


def _refusal(why: str) -> EntrepotError:
    return EntrepotError(Code.INVALID_RECEIPT_HANDLE, f"the receipt handle {why}")


@dataclass(slots=True)
class HandleContext:
    """What all handles of one (topic, group) share: the text of the route, and the MAC begun with it."""

    prefix: str
    mac: Any

    def mint(self, queue_id: int, places: Iterable[tuple[int, int]], reset_since: int = 0) -> list[str]:
        """Handles for (queue offset, attempt) pairs of one queue; their text is made at one go.

        `reset_since`: the group's last reset on the queue, which sets handles apart from those before it.
        """
        begun, parts = self._begun(reset_since).copy, list[bytes]()
        for queue_offset, attempt in places:
            tail = _pack_tail(queue_id, queue_offset, attempt)
            mac = begun()
            mac.update(tail)
            parts += (tail, mac.digest())
        text = encode_text(b"".join(parts))
        prefix, size = self.prefix, TAIL_TEXT_LENGTH
        return [prefix + text[at : at + size] for at in range(0, len(text), size)]

    def _begun(self, reset_since: int) -> Any:
        if not reset_since:
            return self.mac
        mac = self.mac.copy()
        mac.update(_pack_reset(reset_since))
        return mac

    def check(
        self, handles: Sequence[str], reset_since: Callable[[int], int] = lambda queue_id: 0
    ) -> list[tuple[int, int, int] | EntrepotError]:
        """For each handle (queue id, queue offset, attempt), or INVALID_RECEIPT_HANDLE where it is not genuine, or
        from before the last reset of its queue."""
        try:
            data = decode_tails(handles)
        except ValueError:  # not all of them are handles: look at each alone
            if len(handles) == 1:
                return [_refusal("is none")]
            return [self.check((handle,), reset_since)[0] for handle in handles]
        found: list[tuple[int, int, int] | EntrepotError] = []
        route_length = -TAIL_TEXT_LENGTH
        for handle, at in zip(handles, range(0, len(data), _TAIL_SIZE), strict=True):
            tail = data[at : at + TAIL.size]
            place = _unpack_tail(tail)
            mac = self._begun(reset_since(place[0])).copy()
            mac.update(tail)
            if handle[:route_length] != self.prefix:
                found.append(_refusal("was not given out for this topic and group"))
            elif compare_digest(mac.digest(), data[at + TAIL.size : at + _TAIL_SIZE]):
                found.append(place)
            else:
                found.append(_refusal("is forged or harmed"))
        return found


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
