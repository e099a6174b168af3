"""What servers get wrong most often, each with the cases that would show it."""

from __future__ import annotations

from typing import Final

TRAPS: Final[dict[str, tuple[str, ...]]] = {
    "takeover closes with 0x8E and publishes the will": ("takeover [5]", "the will of who is taken over [5]"),
    "the will delay ends with the session": ("the end of the session ends the delay", "a will with its delay"),
    "only DISCONNECT 0x00 drops the will": ("DISCONNECT 0x04 publishes the will", "DISCONNECT 0x80 publishes the will"),
    "DISCONNECT may not bring an expiry to life": ("DISCONNECT makes no session of none",),
    "session expiry for ever": ("a session that never expires",),
    "session present is 0 in refusals": ("nothing after a refused CONNECT [5]",),
    "CONNACK is first": ("packets with CONNECT [5]", "what came while away [5]"),
    "levels that are not offered": ("level 6", "level 0", "3.1 is welcome"),
    "empty client identifiers": (
        "no client identifier is assigned one [5]",
        "no client identifier and Clean Session 0 [3.1.1]",
        "no client identifier [3.1]",
    ),
    "messages too large for a client count as delivered": ("a message larger than the client takes",),
    "no texts without problem information": ("without problem information there are no texts",),
    "DUP is the server's own": ("QoS 1 [5]", "QoS 1 is sent again [5]"),
    "nothing is sent again on a living connection": (
        "QoS 1 is sent again [5]",
        "what was sent is completed though it expired",
    ),
    "a refusal by the subscriber is final": (
        "PUBACK 0x80 of a subscriber",
        "a shared message refused goes to nobody else",
    ),
    "QoS 2 identifiers outlive the connection": ("QoS 2 sent again on another connection [5]",),
    "PUBREL of an unknown identifier": ("PUBREL of an unknown identifier [5]",),
    "receive maximum, both ways": (
        "the client's receive maximum",
        "more than the server's receive maximum",
        "QoS 2 holds its place until PUBCOMP",
    ),
    "message expiry": ("what expired is not delivered", "what is left of the expiry", "a retained message expires"),
    "topic aliases": ("alias 0", "an alias above the maximum", "an alias does not outlive its connection"),
    "subscription identifiers": (
        "subscription identifiers of overlapping subscriptions",
        "a subscription identifier comes with retained messages",
        "PUBLISH with a subscription identifier",
    ),
    "subscribing again": ("the same filter again [5]", "retain handling", "retain handling 1 remembers the session"),
    "retain as published": ("retain as published", "a retained message [5]"),
    "subscription options": ("no local on a shared subscription", "SUBSCRIBE with retain handling 3"),
    "shared subscriptions": (
        "a share name with +",
        "no retained messages for a shared subscription",
        "shared QoS 2 is completed on coming back",
        "shared QoS 2 ends with its session",
    ),
    "topics that begin with $": (
        "topics that begin with $ [5]",
        "a shared subscription does not match topics that begin with $",
    ),
    "UTF-8 is neither checked too little nor changed": ("topics are bytes [5]", "PUBLISH with NUL [5]"),
    "UNSUBSCRIBE compares and completes": ("UNSUBSCRIBE [5]", "UNSUBSCRIBE completes what has begun [5]"),
    "SUBACK comes before retained messages": ("a retained message [5]",),
    "keep alive counts packets, not bytes": ("keep alive [5]", "keep alive [3.1.1]"),
    "malformed or protocol error": ("PUBLISH of QoS 3 [5]", "second CONNECT [5]", "CONNACK from a client [5]"),
    "variable byte integers are minimal": ("a remaining length of more bytes than it takes",),
    "properties": ("PUBLISH with a property twice", "PUBLISH with an unknown property", "CONNECT: receive maximum 0"),
    "connect flags": ("CONNECT: reserved flag [5]", "CONNECT: will QoS 3 [3.1.1]"),
    "authentication": ("an unknown authentication method", "AUTH without a method", "SCRAM again with another method"),
    "any QoS may be asked for": ("SUBSCRIBE at every QoS", "the lower QoS [5]"),
    "order, also on coming back": ("order [5]", "QoS 1 is sent again [5]"),
    "PUBACK says success or no subscribers": ("QoS 1 [5]",),
    "a reason for each filter": ("grants in order [5]", "a filter with # inside [5]"),
    "identifiers stay with what is sent again": ("QoS 2 is sent again [5]", "many identifiers at once"),
    "WebSocket frames are not packets": ("WebSocket frames [5]", "a text frame [5]"),
}
