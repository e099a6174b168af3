"""What is wrong with a peer's bytes or behaviour, as a value the connection can answer with."""

from __future__ import annotations

from protocols.mqtt.reason_codes import ReasonCode


class MqttError(Exception):
    """A reason to refuse the connection or to end it (MQTT 5.0 section 4.13); MQTT 3 can only close."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text

    def __repr__(self) -> str:
        return f"MqttError({self.reason.name}, {self.text!r})"


def malformed(text: str) -> MqttError:
    """Bytes that cannot be parsed by the specification (1.2, Malformed Packet)."""
    return MqttError(ReasonCode.MALFORMED_PACKET, text)


def protocol_error(text: str) -> MqttError:
    """Bytes that parse but say what the protocol does not allow (1.2, Protocol Error)."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, text)
