"""The handshake of QoS 2 from the client's side, and acknowledgements: conversations as data, as in `connection_cases`.

What the server sends at QoS 2 is in the unit tests, since no packet of a client asks the machine for it.
"""

from __future__ import annotations

from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.wire.mqtt.connection_cases import WELCOME5, Case, five, five_ends, four, four_ends

R = ReasonCode
NOT_FOUND = R.PACKET_IDENTIFIER_NOT_FOUND


def _twice(packet_id: int, *, dup: bool = False) -> Publish:
    return Publish("a/b", b"x", 2, packet_id, dup=dup)


CASES: list[Case] = [
    five("4.3.3-8", "PUBREC answers a publish of QoS 2", _twice(1), hears=(Pubrec(1),)),
    five("4.3.3-11", "PUBCOMP answers PUBREL", _twice(1), Pubrel(1), hears=(Pubrec(1), Pubcomp(1))),
    four("4.3.3-2", "QoS 2 in 3.1.1", _twice(1), Pubrel(1), hears=(Pubrec(1), Pubcomp(1))),
    Case(
        "3.1 4.1",
        "QoS 2 in 3.1",
        (Connect("c", 3), _twice(1), Pubrel(1)),
        (Connack(False, ConnectReturnCode.ACCEPTED), Pubrec(1), Pubcomp(1)),
    ),
    five(
        "4.3.3-10",
        "the same publish after PUBREC is answered again",
        _twice(1),
        Pingreq(),
        _twice(1, dup=True),
        Pubrel(1),
        hears=(Pubrec(1), Pingresp(), Pubrec(1), Pubcomp(1)),
    ),
    five(
        "4.3.3-12",
        "the identifier is a new message's after PUBCOMP",
        _twice(1),
        Pubrel(1),
        _twice(1),
        Pubrel(1),
        hears=(Pubrec(1), Pubcomp(1), Pubrec(1), Pubcomp(1)),
    ),
    five("3.7.2.1", "PUBREL of what is not known", Pubrel(7), hears=(Pubcomp(7, NOT_FOUND),)),
    four("4.3.3-2", "PUBREL of what is not known in 3.1.1", Pubrel(7), hears=(Pubcomp(7),)),
    five(
        "4.3.3-11",
        "the second PUBREL finds nothing",
        _twice(1),
        Pubrel(1),
        Publish("a", b""),
        Pubrel(1),
        hears=(Pubrec(1), Pubcomp(1), Pubcomp(1, NOT_FOUND)),
    ),
    five("4.6.0-3", "PUBRECs in the order of the publishes", *map(_twice, (3, 1, 2)), hears=(*map(Pubrec, (3, 1, 2)),)),
    five(
        "3.3.4-7",
        "as many as the receive maximum",
        *map(_twice, (1, 2, 3)),
        hears=(*map(Pubrec, (1, 2, 3)),),
    ),
    five_ends(
        "3.3.4-7",
        "PUBREC does not make room in the receive maximum",
        *map(_twice, (1, 2, 3, 4)),
        reason=R.RECEIVE_MAXIMUM_EXCEEDED,
        hears=(Pubrec(1), Pubrec(2), Pubrec(3)),
    ),
    five(
        "4.9.0-2",
        "PUBCOMP makes room",
        *map(_twice, (1, 2, 3)),
        Pubrel(2),
        _twice(4),
        hears=(*map(Pubrec, (1, 2, 3)), Pubcomp(2), Pubrec(4)),
    ),
    five(
        "4.9.0-2",
        "QoS 1 does not count once it is confirmed",
        _twice(1),
        _twice(2),
        Publish("a", b"", 1, 3),
        Pingreq(),
        Publish("a", b"", 1, 3),
        hears=(Pubrec(1), Pubrec(2), Puback(3), Pingresp(), Puback(3)),
    ),
    four_ends(
        "4.3.3",
        "half-done handshakes are bounded in 3.1.1 too",
        *map(_twice, (1, 2, 3, 4)),
        reason=R.RECEIVE_MAXIMUM_EXCEEDED,
        hears=(Pubrec(1), Pubrec(2), Pubrec(3)),
    ),
    five("4.3.3", "PUBREC of what was not sent", Pubrec(7), hears=(Pubrel(7, NOT_FOUND),)),
    four("4.3.3", "PUBREC of what was not sent in 3.1.1", Pubrec(7), hears=(Pubrel(7),)),
    five(
        "4.3.3",
        "PUBREC of what was not sent, with an error",
        Pubrec(7, R.QUOTA_EXCEEDED),
        Pingreq(),
        hears=(Pingresp(),),
    ),
    five("4.3.3", "PUBCOMP of what was not sent is passed over", Pubcomp(7), Pingreq(), hears=(Pingresp(),)),
    Case(
        "3.14.4-1",
        "a handshake that is done before DISCONNECT",
        (Connect("c", 5), _twice(1), Pubrel(1), Disconnect()),
        (WELCOME5, Pubrec(1), Pubcomp(1)),
        R.NORMAL_DISCONNECTION,
        will=False,
    ),
]
