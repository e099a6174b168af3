"""The request that stores messages in a queue of a broker, and what its answer means."""

from __future__ import annotations

from typing import Final, NamedTuple

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS, Frame
from entrepot.store_client.rocketmq.cluster import Cluster

_STORED: Final = (SUCCESS, *codes.STORED_LESS_SAFELY)


class StorePlace(NamedTuple):
    """A queue of a broker.  `resource`: RocketMQ's name of its topic."""

    resource: str
    local_id: int
    broker: str
    address: str


async def store_at(
    cluster: Cluster,
    place: StorePlace,
    properties: str,
    body: bytes,
    *,
    born_ms: int,
    flag: int = 0,
    is_batch: bool = False,
    reconsumed: int = 0,
) -> Frame:
    """Send a request with messages (the short names of SendMessageRequestHeaderV2).  Raises its refusal, and
    OUTCOME_UNKNOWN where the message is stored less safely than promised."""
    fields = {
        "a": cluster.settings.producer_group,
        "b": place.resource,
        "c": "TBW102",
        "d": 0,
        "e": place.local_id,
        "f": flag,
        "g": born_ms or cluster.clock.now_ms(),
        "h": 0,
        "i": properties,
        "j": reconsumed,
        "k": False,
        "m": is_batch,
        "n": place.broker,
    }
    code = codes.SEND_BATCH if is_batch else codes.SEND
    what = f"store a message of topic {place.resource!r}"
    answer = await cluster.ask(place.address, code, fields, body, what=what, good=_STORED)
    if answer.code != SUCCESS and not cluster.settings.confirms_less_safe:
        text = f"broker {place.broker!r} has the message, and not as safely as it should: unknown outcome"
        raise EntrepotError(Code.OUTCOME_UNKNOWN, f"{text} ({answer.remark or answer.code})")
    return answer


def queue_offset_in(answer: Frame) -> int:
    """Return the queue offset of the first message that an answer confirms, or -1."""
    offset = answer.fields.get("queueOffset", "")
    return int(offset) if offset.isdecimal() else -1
