"""What subscribers are told of a message's time and text, whatever protocol it came by."""

from __future__ import annotations

import pytest

from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.protocols.mqtt.mapping import is_expired, to_message, to_properties
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("left_ms", "seconds"), [(1, 1), (999, 1), (1000, 1), (1001, 2), (59_001, 60), (60_000, 60), (0, 1), (-5000, 1)]
)
def test_the_rest_of_a_life_is_rounded_up(left_ms: int, seconds: int) -> None:
    """A message ends at its time at the last of several servers, not before."""
    stored = StoredMessage("t", b"m", "t", system={SystemProperty.EXPIRES_AT_MS: NOW_MS + left_ms})
    assert to_properties(stored, NOW_MS) == {PropertyId.MESSAGE_EXPIRY_INTERVAL: seconds}
    assert is_expired(stored, NOW_MS) is (left_ms <= 0)


def test_a_life_of_a_publish_begins_now() -> None:
    publish = Publish("t/a", b"m", 1, 7, properties={PropertyId.MESSAGE_EXPIRY_INTERVAL: 60})
    message = to_message(publish, "t", 3, 9, NOW_MS)
    assert message.time_ms(SystemProperty.EXPIRES_AT_MS) == NOW_MS + 60_000
    assert (message.topic, message.sub_topic, message.queue_id, message.filter_hash) == ("t", "t/a", 3, 9)
    assert (message.qos, message.born_time_ms) == (1, NOW_MS)
