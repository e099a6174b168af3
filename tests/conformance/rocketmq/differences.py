"""Where our door answers otherwise than RocketMQ's proxy 5.5.0, and why.

A difference names fields by the end of their path, and conversations, or none for all of them.  Every field that
differs is covered by one, and each covers some: what is no difference any more fails its test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """Fields that differ for one reason. `fields`: regular expressions for the ends of paths."""

    why: str
    fields: tuple[str, ...]
    conversations: tuple[str, ...] = ()
    better: bool = False
    """True where ours says more, or holds back what the proxy lets through."""


ALL: Final = (".*",)
STATUS: Final = ("status", "receipt_handle", "message_id", "recall_handle", r"transaction_id")

DIFFERENCES: Final = (
    Difference(
        "A place in a queue is not told for a sent message, nor a transaction id for one without a transaction.",
        (r"entries\.\d+\.offset", r"entries\.\d+\.transaction_id"),
    ),
    Difference(
        "A message does not name the host of its broker, nor that of a producer that did not say its own.",
        (r"system_properties\.store_host", r"system_properties\.born_host"),
    ),
    Difference("A received message says how long it is invisible.", (r"system_properties\.invisible_duration",)),
    Difference(
        "What RocketMQ keeps in properties of its own is in its field alone: a consumer that sends a message's user "
        "properties on does not send its message group or its transaction.",
        (r"user_properties\.__SHARDINGKEY", r"user_properties\.__transactionId__"),
    ),
    Difference("`grpc.lite_subscriptions` is 300; the proxy's quota is 2000.", ("lite_subscription_quota",)),
    Difference("A refused receive ends with its status.", (r"\d+\.delivery_timestamp",)),
    Difference(
        "A topic takes messages of all types, unless it is of type PRIORITY. So does the proxy with "
        "`enableTopicMessageTypeCheck` off; by default it refuses all types but the declared one.",
        (r"accept_message_types\.\d", *STATUS),
        (
            *(f"a route of a {kind} topic" for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "LITE")),
            *("a route of a PRIORITY topic", "a route of dead letters", "a route without endpoints"),
            *("a route for Java 5.2.1", "NORMAL, the topic is FIFO", "NORMAL, the topic is PRIORITY"),
            *("a message group, the topic is NORMAL", "a transaction, the topic is NORMAL"),
            "FIFO without a message group, the topic is FIFO",
        ),
    ),
    Difference(
        "A lite topic may be any level of a name, as other doors have it; the proxy's has letters, digits, `-`, `_`.",
        STATUS,
        ("a lite topic with a dot",),
    ),
    Difference("A priority needs a topic of type PRIORITY.", STATUS, ("a priority, any type",)),
    Difference(
        "A transaction with a delivery time is refused; the proxy takes it.", STATUS, ("a time and a transaction",)
    ),
    Difference(
        "Topics are made by their first use (`topics.auto_create`); RocketMQ's here are not.",
        ALL,
        (
            *("to a topic that is not there", "a route of a topic that is not there", "to a topic with a bar"),
            *("an assignment of a topic that is not there", "a topic that is not there"),
        ),
    ),
    Difference("A message without an id gets one; the proxy refuses it.", STATUS, ("no message id",), better=True),
    Difference(
        "A property without a visible name is refused. One with an empty value comes back; the proxy drops it.",
        (*STATUS, r"user_properties\.p"),
        (*("a property with no name", "a blank name of a property", "a property with no value"),),
    ),
    Difference(
        "A key may have a space: the list is in `entrepot_keys`. The proxy makes two keys of it.",
        (r"keys\.\d", "entrepot_keys"),
        ("a key with a space",),
        better=True,
    ),
    Difference(
        "A body that fails its digest, or is not compressed as it says, is refused. The proxy stores it.",
        STATUS,
        ("a wrong digest", "gzip that is none"),
        better=True,
    ),
    Difference(
        "Each message of a call has an entry; the proxy has one for all, with all ids in one text.",
        STATUS,
        ("two messages", "two message groups", "one message twice", "a half message and another"),
        better=True,
    ),
    Difference(
        "A delivery time may be 400 days ahead, the proxy's one day. One that has passed has a recall handle.",
        STATUS,
        ("a delivery time in two days", "a delivery time that has passed"),
    ),
    Difference(
        "Dead letters and retries are a group's own: nobody sends to them. The proxy finds no such topic.",
        STATUS,
        ("to dead letters", "to a retry topic"),
    ),
    Difference(
        "Each fault of a request has a code of its own; the proxy says INTERNAL_SERVER_ERROR.",
        STATUS,
        (
            *("a negative priority", "a transaction ended twice", "an unknown transaction", "a recall of nonsense"),
            *("a recall of nothing", "SQL that is none", "a batch of -1", "an acknowledgement of nonsense"),
            *("an acknowledgement of nothing", "no acknowledgement", "two acknowledgements, one of nonsense"),
            *("a change of nonsense", "a dead letter of nonsense", "a transaction committed, then rolled back"),
            "an acknowledgement of another topic",
        ),
        better=True,
    ),
    Difference(
        "A filter that is none is refused; the proxy takes it for one by tags.",
        STATUS,
        ("a filter of no type", "a tag expression of bars"),
        better=True,
    ),
    Difference(
        "A resource namespace is a namespace of ours; the proxy passes over it.",
        ALL,
        ("to a topic of a namespace", "a route in a namespace"),
    ),
    Difference("A consumer's heartbeat needs no group.", STATUS, ("a consumer's heartbeat without a group",)),
    Difference("A negative polling time is refused; the proxy waits 5 s.", STATUS, ("a negative polling time",)),
    Difference(
        "An invisible time may be shorter than 10 s, and without one the group's own is taken. The proxy refuses both.",
        STATUS,
        ("an invisible time of 1 s", "no invisible time"),
    ),
    Difference(
        "No call needs settings that the server holds in memory, so clients go on after a restart.",
        (*STATUS, r"messages.*"),
        (
            *("without settings", "a heartbeat without settings", "a goodbye without settings"),
            "a lite subscription without settings",
        ),
        better=True,
    ),
    Difference("A heartbeat of no client type is refused.", STATUS, ("a heartbeat of no type",)),
    Difference(
        "Bad settings are answered with a status, and the stream stays. The proxy ends it with INVALID_ARGUMENT.",
        ALL,
        ("settings of nothing", "settings of a bad topic", "settings without a group"),
        better=True,
    ),
    Difference(
        "A receipt handle settles a delivery of its own group once, and in one way: the same call again is OK, and "
        "another one is not. The proxy answers OK to all of these.",
        STATUS,
        (
            *("an acknowledgement by another group", "a change by another group"),
            *("a change after an acknowledgement", "an acknowledgement after a change to 0"),
            *("a dead letter after an acknowledgement", "an acknowledgement after a dead letter"),
        ),
        better=True,
    ),
    Difference(
        "A dead letter is a new message: its attempts begin again, and it names its origin, in its field and in "
        "properties `entrepot_dead_letter_...`. The proxy's has the attempts of the message, and no origin.",
        ("delivery_attempt", "message_type", r"dead_letter_queue\..*", r"entrepot_\w+"),
        ("a dead letter received",),
        better=True,
    ),
    Difference(
        "A message of a new group is delivered at most 16 times (`groups.max_attempts`). RocketMQ's 16 are retries, so "
        "it is delivered 17 times.",
        ("max_attempts",),
        ("settings of a group that nobody made",),
    ),
    Difference(
        "An assignment to an ordered group is all queues, too: order is kept by message group.",
        (r"message_queue\.id",),
        ("an assignment of an ordered group",),
    ),
    Difference(
        "Reading and positions by queue, which the proxy does not implement.",
        ALL,
        ("PullMessage", "GetOffset", "QueryOffset", "UpdateOffset"),
        better=True,
    ),
)
