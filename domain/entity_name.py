"""Names of AMQP's queues and exchanges, encoded as names of topics and groups.

AMQP accepts any text of up to 255 bytes; topics and groups a small alphabet and `domain.names.MAX_GROUP_LENGTH`
characters.  Letters, digits, `_` and `-` stand for themselves; every other byte is `%XX`.  An empty name, and one that
would begin with `%` as system names do, get a `|` in front.  A name still too long is cut and ends with `|` and a hash
of the whole.  Such a name cannot be decoded, so the entity's definition has to keep the original.  Two entities never
share a name: `|` is in no other place of an encoded name.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.escaped_names import Escaping
from entrepot.domain.names import MAX_GROUP_LENGTH

MAX_ENTITY_BYTES: Final = 255
MAX_ENCODED_LENGTH: Final = MAX_GROUP_LENGTH
_HASH_BYTES: Final = 16
MAX_KEPT_PREFIX: Final = MAX_ENCODED_LENGTH - 1 - 2 * _HASH_BYTES
"""Longest encoded prefix that is kept whole in the encoded names of all entities with that prefix."""
_MARK: Final = "|"
_ESCAPING: Final = Escaping("-_")
_PIECES: Final = _ESCAPING.pieces


def encoded_name(entity: str) -> str:
    """Return the name of the topic or group of an entity.  Raises BAD_REQUEST (over 255 bytes, or invalid text)."""
    try:
        raw = entity.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise EntrepotError(Code.BAD_REQUEST, f"{entity[:80]!r} is not a name: it has half a character") from None
    if len(raw) > MAX_ENTITY_BYTES:
        raise EntrepotError(Code.BAD_REQUEST, f"a name has up to {MAX_ENTITY_BYTES} bytes, not {len(raw)}")
    pieces = [_PIECES[byte] for byte in raw]
    if not pieces or len(pieces[0]) > 1:
        pieces.insert(0, _MARK)
    name = "".join(pieces)
    if len(name) <= MAX_ENCODED_LENGTH:
        return name
    ending = _MARK + blake2b(raw, digest_size=_HASH_BYTES).hexdigest()
    room, kept = MAX_ENCODED_LENGTH - len(ending), 0
    while room >= len(pieces[kept]):  # whole pieces only
        room -= len(pieces[kept])
        kept += 1
    return "".join(pieces[:kept]) + ending


def decoded_name(name: str) -> str | None:
    """Return the entity of an encoded name, or None: the name was cut, or is not an encoded one."""
    body = name.removeprefix(_MARK)
    if _MARK in body:
        return None
    entity = _ESCAPING.text(body, "surrogateescape")
    try:
        return entity if encoded_name(entity) == name else None
    except EntrepotError:
        return None
