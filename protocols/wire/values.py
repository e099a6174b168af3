"""Values on the wire: msgpack of the domain's own types, by their annotations.  Two types have forms of their own: a
refusal is [code, message], a histogram [counts, total]."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec

from entrepot.domain.errors import Code, CorruptedError, EntrepotError, StorageFullError
from entrepot.domain.measurement import BOUNDS, Histogram
from entrepot.protocols.wire.frames import RemotingError

T = TypeVar("T")


def error_of(code: int, message: str) -> EntrepotError:
    """Return the refusal of a code; an unknown one gives INTERNAL_ERROR with its number."""
    if code == Code.STORAGE_FULL:
        return StorageFullError(message)
    if code == Code.MESSAGE_CORRUPTED:
        return CorruptedError(message)
    try:
        return EntrepotError(Code(code), message)
    except ValueError:
        return EntrepotError(Code.INTERNAL_ERROR, f"{message} (code {code})")


def _to_plain(value: Any) -> Any:
    if isinstance(value, EntrepotError):
        return [int(value.code), value.message]
    if isinstance(value, Histogram):
        return [value.counts, value.total_seconds]
    raise NotImplementedError(f"{type(value).__name__} does not go over the wire")


def _from_plain(kind: type[Any], value: Any) -> Any:
    if kind is EntrepotError:
        code, message = value
        if not isinstance(code, int) or not isinstance(message, str):
            raise ValueError("a refusal is [code, message]")
        return error_of(code, message)
    if kind is Histogram:
        counts, total = value
        if len(counts) != len(BOUNDS) + 1 or not all(isinstance(count, int) for count in counts):
            raise ValueError("a histogram of other buckets")
        histogram = Histogram()
        histogram.counts, histogram.total_seconds = list(counts), float(total)
        return histogram
    raise NotImplementedError(f"{kind.__name__} does not come over the wire")


encode: Final = msgspec.msgpack.Encoder(enc_hook=_to_plain).encode
"""Returns the bytes of a value."""


class Codec(Generic[T]):
    """A reader of values of one type."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._decode = msgspec.msgpack.Decoder(kind, dec_hook=_from_plain).decode

    def decode(self, data: bytes) -> T:
        """Return the value.  Raises RemotingError for other bytes, and the refusal of an invalid value."""
        try:
            value: T = self._decode(data)
        except EntrepotError:
            raise
        except (msgspec.DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise RemotingError(f"a value cannot be read: {error}") from error
        return value
