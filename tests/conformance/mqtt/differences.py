"""Where mosquitto 2.0 does something else than a case says, and why the case is right.

`observed` is part of what the player reports when it plays the case: a difference that is not there any more, or has
become another one, fails its test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """Cases that mosquitto does not pass, all in the same way."""

    observed: str
    why: str
    cases: tuple[str, ...]


DIFFERENCES: Final = (
    Difference(
        "the server closed a",
        "MQTT-3.1.4-1 allows to close without a word; we say the reason in CONNACK, as 4.13 recommends.",
        (
            "another protocol name, nothing is processed",
            "CONNECT: reserved flag [5]",
            "CONNECT: will QoS 3 [5]",
            "CONNECT: will QoS without a will [5]",
            "CONNECT: will retain without a will [5]",
            "CONNECT: will flag without a will [5]",
            "CONNECT: user name flag without a name [5]",
            "CONNECT: user name without its flag [5]",
            "CONNECT: password flag without a password [5]",
            "CONNECT: password without its flag [5]",
            "CONNECT: no client identifier [5]",
            "CONNECT: client identifier of bad UTF-8 [5]",
            "CONNECT: client identifier with a surrogate [5]",
            "CONNECT: client identifier with NUL [5]",
            "CONNECT: user name of bad UTF-8 [5]",
            "CONNECT: will topic of bad UTF-8 [5]",
            "CONNECT: will topic with NUL [5]",
            "CONNECT: receive maximum 0",
            "CONNECT: receive maximum twice",
            "CONNECT: maximum packet size 0",
            "CONNECT: session expiry twice",
            "CONNECT: request problem information 2",
            "CONNECT: request response information 2",
            "CONNECT: a property of PUBLISH",
            "CONNECT: an unknown property",
            "CONNECT: properties past the end",
            "CONNECT: a pair of bad UTF-8",
            "a refusal ends it, and its identifier may be used again",
            "nothing after a refused CONNECT [5]",
            "a will topic with a wildcard",
            "a CONNECT larger than the server takes",
        ),
    ),
    Difference(
        "reason is not 130",
        "3.1.2.11.10 makes it a protocol error; mosquitto 2.0 accepts the connection.",
        ("CONNECT: authentication data without a method",),
    ),
    Difference(
        "closed without a DISCONNECT",
        "4.13 recommends a DISCONNECT with the reason, which mosquitto 2.0 leaves out here; it closes as we do.",
        (
            "second CONNECT [5]",
            "takeover [5]",
            "keep alive [5]",
            "taking over a session takes its delayed will away",
            "AUTH without a method",
            "PUBREL with flags 0000 [5]",
            "DISCONNECT with flags 0001 [5]",
            "CONNACK from a client [5]",
            "PUBACK without an identifier [5]",
            "PUBLISH with a property twice",
            "PUBLISH with a response topic of bad UTF-8",
            "PUBLISH with a content type of bad UTF-8",
            "PUBLISH with a pair of bad UTF-8",
            "SUBSCRIBE with two subscription identifiers",
            "DISCONNECT with an unknown reason",
            "DISCONNECT with the reason of another packet",
            "AUTH with flags 0001",
            "AUTH with an unknown reason",
            "a remaining length of five bytes [5]",
        ),
    ),
    Difference(
        "heard Disconnect(reason=<ReasonCode.MALFORMED_PACKET",
        (
            "mosquitto takes a filter of wrong form for a malformed packet; we refuse that filter alone with "
            "0x8F, which table 3-8 of SUBACK has for it."
        ),
        ("without problem information there are no texts",),
    ),
    Difference(
        "heard Pingresp()",
        (
            "MQTT-2.1.3-1 (3.1.1: 2.2.2-2): flags other than those listed close; mosquitto 2.0 does not look "
            "at those of PINGREQ."
        ),
        (
            "a will after a violation [5]",
            "a will after a violation [3.1.1]",
            "PINGREQ with flags 0001 [5]",
            "PINGREQ with flags 0001 [3.1.1]",
        ),
    ),
    Difference(
        "nothing came and the connection is open",
        ("3.1.2.5 publishes the will when the session ends, and Clean Start ends it; mosquitto 2.0 drops the will."),
        ("a new session ends the old one and publishes its delayed will",),
    ),
    Difference(
        "nothing came and the connection is open",
        (
            "3.1.3.2.2: the will goes out when the session ends, which is at once without an expiry; "
            "mosquitto 2.0 waits for the delay."
        ),
        ("the end of the session ends the delay",),
    ),
    Difference(
        "nothing came and the connection is open",
        "MQTT-3.14.4-3 discards the will for 0x00 alone; mosquitto 2.0 publishes it for 0x04 alone.",
        ("DISCONNECT 0x80 publishes the will",),
    ),
    Difference(
        "reason is not 146",
        "3.7.2.1 has 0x92 for it; mosquitto 2.0 says success.",
        ("PUBREL of an unknown identifier [5]",),
    ),
    Difference(
        "heard Disconnect(reason=<ReasonCode.MALFORMED_PACKET",
        (
            "The packet can be parsed and its content is what is wrong: a protocol error (1.2), or 0x94 for "
            "alias 0 (3.3.2.3.4); mosquitto says malformed."
        ),
        (
            "SUBSCRIBE of nothing [5]",
            "UNSUBSCRIBE of nothing [5]",
            "alias 0",
            "PUBLISH with alias 0",
            "PUBLISH with a property of CONNECT",
            "SUBSCRIBE with subscription identifier 0",
        ),
    ),
    Difference(
        "heard Disconnect(reason=<ReasonCode.MALFORMED_PACKET",
        (
            "mosquitto takes a filter of wrong form for a malformed packet; we refuse that filter alone with "
            "0x8F, which SUBACK has for it (3.9.3)."
        ),
        (
            "a filter with # inside [5]",
            "a filter with # after a word [5]",
            "a filter with + after a word [5]",
            "a filter with + before a word [5]",
            "a share name with +",
            "a share name with #",
        ),
    ),
    Difference(
        "the server closed a",
        (
            "mosquitto takes a filter of wrong form for a violation and closes; we refuse that filter alone "
            "with 0x80 (3.9.3). 3.1.1 allows both."
        ),
        (
            "a filter with # inside [3.1.1]",
            "a filter with # after a word [3.1.1]",
            "a filter with + after a word [3.1.1]",
            "a filter with + before a word [3.1.1]",
        ),
    ),
    Difference(
        "reasons=[<ReasonCode.SUCCESS",
        "MQTT-3.8.3-4 makes it a protocol error; mosquitto 2.0 grants it.",
        ("no local on a shared subscription",),
    ),
    Difference(
        "nothing came and the connection is open",
        "MQTT-4.3.3-7: no expiry once PUBLISH was sent; mosquitto 2.0 forgets the exchange on reconnecting.",
        ("QoS 2 is completed though it expired",),
    ),
    Difference(
        "heard Publish(topic='c/@@@@@@@@', payload=b'4'",
        "MQTT-3.3.4-9: two are unacknowledged and two is the maximum; mosquitto 2.0 sends a third.",
        ("the client's receive maximum",),
    ),
    Difference(
        "reason=<ReasonCode.QUOTA_EXCEEDED",
        "3.3.4 closes with 0x93; mosquitto 2.0 refuses the message with PUBREC 0x97.",
        ("more than the server's receive maximum",),
    ),
    Difference(
        "payload=b'kept'",
        "4.8.2: no retained messages are sent when a shared subscription is made; mosquitto 2.0 sends them.",
        ("no retained messages for a shared subscription",),
    ),
    Difference(
        "reasons is not [<ReasonCode.TOPIC_FILTER_INVALID",
        "MQTT-4.8.2-1 and -2 forbid the filter; mosquitto 2.0 grants it.",
        (
            "a share without a filter",
            "a share with an empty filter",
            "a share without a name",
        ),
    ),
    Difference(
        "heard Connack(",
        "MQTT-6.0.0-1: a text frame closes; mosquitto 2.0 does not look at the kind of frame.",
        (
            "a text frame [5]",
            "a text frame [3.1.1]",
        ),
    ),
    Difference(
        "nothing came and the connection is open",
        "The specification closes; mosquitto 2.0 does not look, and goes on.",
        (
            "PUBACK with flags 0010 [5]",
            "PUBACK with flags 0010 [3.1.1]",
            "PUBLISH of QoS 0 with DUP [5]",
            "PUBLISH of QoS 0 with DUP [3.1.1]",
            "SUBACK from a client [5]",
            "SUBACK from a client [3.1.1]",
            "UNSUBACK from a client [5]",
            "UNSUBACK from a client [3.1.1]",
            "PINGRESP from a client [5]",
            "PINGRESP from a client [3.1.1]",
            "PUBLISH with a subscription identifier",
            "PUBLISH with subscription identifier 0",
            "PUBLISH with payload format 2",
            "PUBLISH with a wildcard in the response topic",
            "PUBACK with an unknown reason",
        ),
    ),
    Difference(
        "heard Disconnect(reason=<ReasonCode.PROTOCOL_ERROR",
        (
            "Type 0 is reserved (2.1.2), so that the packet cannot be parsed, which 1.2 calls malformed; both"
            " codes close."
        ),
        ("packet type 0 [5]",),
    ),
    Difference(
        "heard Disconnect(reason=<ReasonCode.PROTOCOL_ERROR",
        "Both codes are true; 0x90 says more (4.13).",
        ("PUBLISH with a wildcard, QoS 0",),
    ),
    Difference(
        "heard Pubcomp(",
        "MQTT-3.6.2-1: 0x10 is not a reason of PUBREL; mosquitto 2.0 does not look at it.",
        ("PUBREL with the reason of PUBACK",),
    ),
    Difference(
        "heard Pingresp()",
        "MQTT-1.5.5-1: lengths take the fewest bytes; mosquitto 2.0 does not look.",
        ("a remaining length of more bytes than it takes",),
    ),
    Difference(
        "the server closed p",
        "mosquitto 2.0 refuses a message for $SYS and then closes; the refusal is enough.",
        (
            "after a refused QoS 2 the identifier is free",
            "a client may not publish for the server [5]",
        ),
    ),
)

MOSQUITTO: Final = {case: difference for difference in DIFFERENCES for case in difference.cases}
