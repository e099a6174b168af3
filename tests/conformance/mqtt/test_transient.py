"""3.1.1 has no word for what failed for now: the connection is closed, and nothing is confirmed (MQTT-4.8.0-2)."""

from __future__ import annotations

from pathlib import Path

from protocols.mqtt.packets import Connack, Connect, Puback, Publish
from protocols.mqtt.reason_codes import ReasonCode
from tests.conformance.mqtt.script import UNIQUE
from tests.conformance.mqtt.wire_client import WireClient
from tests.support.server import ServerProcess


def test_a_store_that_cannot_take_it_closes(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, {"topics.max_auto_created": "1"}) as server:
        five = WireClient("127.0.0.1", server.port("mqtt"), 5, UNIQUE.encode())
        five.say(Connect("five"))
        assert isinstance(five.next(), Connack)
        refused = publish_until_refused(five)
        assert refused.reason == ReasonCode.QUOTA_EXCEEDED
        four = WireClient("127.0.0.1", server.port("mqtt"), 4, UNIQUE.encode())
        four.say(Connect("four", 4))
        assert isinstance(four.next(), Connack)
        four.say(Publish("one-more/topic", b"x", 1, 1))
        assert four.next() is None
        five.close()
        four.close()


def publish_until_refused(client: WireClient) -> Puback:
    """Publish to one topic after the other; the answer that refuses."""
    for number in range(1, 100):
        client.say(Publish(f"topic-{number}", b"x", 1, number))
        answer = client.next()
        assert isinstance(answer, Puback)
        if answer.reason >= ReasonCode.UNSPECIFIED_ERROR:
            return answer
    raise AssertionError("nothing was refused")
