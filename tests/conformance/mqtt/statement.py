"""What a normative statement is here: its number, whom it binds, its sense in our words, and proofs beside the cases.

The cases themselves name the statements they prove (`script.Case.five`, `script.Case.four`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Binds(Enum):
    """Whom a statement binds.  A server is a sender and a receiver too."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"
    SENDER = "sender"
    RECEIVER = "receiver"

    @property
    def server(self) -> bool:
        """Whether a server can break it."""
        return self is not Binds.CLIENT


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a specification's appendix B.  `tests` are tests of ours elsewhere that prove it: path::name."""

    number: str
    binds: Binds
    text: str
    tests: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The section it stands in."""
        return self.number.rpartition("-")[0]


SERVER: Final = Binds.SERVER
CLIENT: Final = Binds.CLIENT
BOTH: Final = Binds.BOTH
SENDER: Final = Binds.SENDER
RECEIVER: Final = Binds.RECEIVER

BAD_INPUT: Final = "tests/wire/mqtt/test_mqtt_bad_input.py::test_bad_input"
GOLDEN_DECODE: Final = "tests/wire/mqtt/test_mqtt_golden.py::test_decode"
GOLDEN_ENCODE: Final = "tests/wire/mqtt/test_mqtt_golden.py::test_encode"
ROUND_TRIP: Final = "tests/wire/mqtt/test_mqtt_round_trip.py::test_packet_survives_the_wire"
LENGTHS: Final = "tests/wire/mqtt/test_mqtt_round_trip.py::test_every_length_of_the_remaining_length"
VARINTS: Final = "tests/unit/mqtt/test_mqtt_encoder.py::test_varint"
IDENTIFIERS: Final = "tests/unit/mqtt/test_connection.py::test_packet_identifiers_are_unique_and_never_zero"
DOES_NOT_FIT: Final = "tests/unit/mqtt/test_mqtt_encoder.py::test_what_does_not_fit"
NO_PROPERTIES: Final = "tests/unit/mqtt/test_mqtt_encoder.py::test_no_properties"
GOODBYE_FITS: Final = "tests/unit/mqtt/test_connection.py::test_a_goodbye_without_text_where_the_text_does_not_fit"
LONGEST_TOPIC: Final = "tests/unit/mqtt/test_mqtt_encoder.py::test_longest_topic"
REASONS: Final = "tests/conformance/mqtt/test_answers.py::test_reason_codes_are_those_of_their_packet"
REFUSALS: Final = "tests/unit/mqtt/test_connection.py::test_refusals"
TRANSIENT: Final = "tests/conformance/mqtt/test_transient.py::test_a_store_that_cannot_take_it_closes"
BARE_ANSWERS: Final = "tests/conformance/mqtt/test_answers.py::test_answers_have_no_text_that_could_be_too_long"
