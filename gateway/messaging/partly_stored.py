"""A message that was stored in part: some brokers of its queues took it while others were away.

A second try under the same id reaches only the brokers that lack it. A broker keeps a message for all of its own queues
or for none.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.errors import raise_if
from entrepot.domain.message import Message, StoredMessage, in_doubt
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.appending import append_and_wait
from entrepot.gateway.messaging.send import Sender


async def store_the_rest(store: Store, sender: Sender, message: Message, found: Sequence[StoredMessage]) -> None:
    """Store the message on the brokers that lack it, by the copies `found` under its id. Raises EntrepotError where a
    broker does not take its part."""
    sender.place([message])
    topics = {message.topic, *(topic for topic, _ in message.further_queues)}  # others were made of it since
    rest = _without(message, {broker_of_queue(each.queue_id) for each in found if each.topic in topics})
    if rest is None:
        return
    raise_if((await append_and_wait(store.messages, [in_doubt(rest)]))[0])  # the first try may still be under way


def _without(message: Message, brokers: set[int]) -> Message | None:
    """The message for its queues of other brokers; None where there are no others."""
    places = [(message.topic, message.queue_id), *message.further_queues]
    missing = [place for place in places if broker_of_queue(place[1]) not in brokers]
    if not missing:
        return None
    return message.placed(missing)
