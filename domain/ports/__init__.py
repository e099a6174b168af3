"""Ports: the requirements on a store, as small Protocols, one per file; `Store` is a record of them.

The contract suite (`tests/contract`) states their behaviour and runs on all implementations.  Calls take batches, never
single messages.  A call that can be refused per item returns one outcome per item; a refusal of the whole call is
raised as `EntrepotError`.

ADR 39: a store is a record of its ports.  Invariant: a refusal inside a batch is a value at its place.
"""

from entrepot.domain.ports.condition import Condition
from entrepot.domain.ports.consumption import (
    GIVEN_BACK,
    MAX_ATTEMPT_ID_BYTES,
    MAX_CONSUMER_LENGTH,
    MAX_POP_BYTES,
    MAX_POP_MESSAGES,
    REJECTED,
    Consumption,
    PopRequest,
)
from entrepot.domain.ports.finder import MessageFinder, MessageSearch
from entrepot.domain.ports.key_values import KeyValues
from entrepot.domain.ports.messages import MessageAppender, MessageReader, Messages, Pulled, Tail
from entrepot.domain.ports.store import Store
from entrepot.domain.ports.timers import Timers
from entrepot.domain.ports.topology import Topology
from entrepot.domain.ports.transactions import Transactions

__all__ = [
    "GIVEN_BACK",
    "MAX_ATTEMPT_ID_BYTES",
    "MAX_CONSUMER_LENGTH",
    "MAX_POP_BYTES",
    "MAX_POP_MESSAGES",
    "REJECTED",
    "Condition",
    "Consumption",
    "KeyValues",
    "MessageAppender",
    "MessageFinder",
    "MessageReader",
    "MessageSearch",
    "Messages",
    "PopRequest",
    "Pulled",
    "Store",
    "Tail",
    "Timers",
    "Topology",
    "Transactions",
]
