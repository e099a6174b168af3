"""Contents of CONNACK and DISCONNECT, with smaller forms for clients of small packets."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.packets import Connack
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId
from entrepot.protocols.mqtt.reason_codes import REASONS_OF, ConnectReturnCode, ReasonCode

_RETURN_CODES: Final = {
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ConnectReturnCode.IDENTIFIER_REJECTED,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ConnectReturnCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ConnectReturnCode.NOT_AUTHORIZED,
    ReasonCode.SERVER_UNAVAILABLE: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.QUOTA_EXCEEDED: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.CONNECTION_RATE_EXCEEDED: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.USE_ANOTHER_SERVER: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_SHUTTING_DOWN: ConnectReturnCode.SERVER_UNAVAILABLE,
}
"""Return codes of version 3 for reasons of version 5; others close without an answer."""

_SPARED_OF_CONNACK: Final = (
    PropertyId.RESPONSE_INFORMATION,
    PropertyId.TOPIC_ALIAS_MAXIMUM,
    PropertyId.MAXIMUM_PACKET_SIZE,
)
"""Properties to leave out, in this order, of a CONNACK too large for its client, which works without."""

CLIENTS_GOODBYES: Final = frozenset(
    ReasonCode(code) for code in (0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99)
)
"""Reasons of a client's DISCONNECT (table 3-13)."""


def connack_forms(properties: Properties) -> list[Properties]:
    """Return the forms of an accepting CONNACK, the fullest first."""
    forms = [properties]
    for spared in _SPARED_OF_CONNACK:
        if spared in forms[-1]:
            forms.append({key: value for key, value in forms[-1].items() if key != spared})
    return forms


def goodbye_forms(properties: Properties) -> list[Properties]:
    """Return the forms of a connection's last packet, the fullest first; the reason string goes first (3.2.2-19,
    3.14.2-3)."""
    rest: Properties = {key: value for key, value in properties.items() if key != PropertyId.REASON_STRING}
    return [properties, rest, EMPTY] if rest else [properties, EMPTY]


def refusals(version: int, reason: ReasonCode, properties: Properties) -> list[Connack]:
    """Return the forms of a refusing CONNACK, the fullest first; none if the version cannot tell the reason."""
    if version == 5:
        is_known = reason in REASONS_OF[PacketType.CONNACK]
        told = reason if is_known else ReasonCode.SERVER_UNAVAILABLE  # as at a shutdown of the server
        return [Connack(False, told, form) for form in goodbye_forms(properties)]
    if version == 0 and reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:  # all versions know this answer (3.1.2-2)
        return [Connack(False, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)]
    if version in (3, 4) and reason in _RETURN_CODES:
        return [Connack(False, _RETURN_CODES[reason])]
    return []
