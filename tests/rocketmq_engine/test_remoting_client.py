"""The JSON that RocketMQ's brokers write."""

from __future__ import annotations

from typing import Any

from tests.support.cases import cases
from tests.support.rocketmq.remoting_client import read_json


@cases(
    "text, value",
    [
        ('{"a": [1, -2.5, "x:,}"], "b": {}}', {"a": [1, -2.5, "x:,}"], "b": {}}),
        (
            '{"brokerAddrs":{0:"127.0.0.1:1",1:"127.0.0.1:2"}}',
            {"brokerAddrs": {"0": "127.0.0.1:1", "1": "127.0.0.1:2"}},
        ),
        (
            '{{"queueId":0}:{"maxOffset":2},{"queueId":1}:{}}',
            [({"queueId": 0}, {"maxOffset": 2}), ({"queueId": 1}, {})],
        ),
        (" [ ] ", []),
    ],
)
def test_keys_may_be_numbers_and_objects(text: str, value: Any) -> None:
    assert read_json(text) == value
