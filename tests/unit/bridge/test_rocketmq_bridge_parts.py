"""Parts of a bridge to a RocketMQ cluster: names on both sides, kept positions, and settings that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.bridge.errors import LeaseLostError
from entrepot.gateway.bridge.rocketmq.positions import Positions
from entrepot.gateway.bridge.rocketmq.renaming import local_name, remote_name, renamed_sub_topic
from entrepot.gateway.settings.rocketmq_bridge import RocketMqBridgeSettings, RocketMqRemote, RocketMqRule
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

RULE: dict[str, Any] = {"direction": "both", "topics": ["orders", "log*", "team/x*"]}
REMOTE: dict[str, Any] = {"name": "old", "name_servers": ["h:9876"], "rules": [RULE]}


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("b-orders", "a-orders"),
        ("b-log", "a-log"),
        ("b-logs", "a-logs"),
        ("team/b-xy", "team/a-xy"),
        ("orders", None),
        ("b-orders2", None),
        ("team/b-orders", None),
        ("other/b-orders", None),
        ("%DLQ%b-orders", None),
    ],
)
def test_names_both_ways(there: str, here: str | None) -> None:
    rule = RocketMqRule(**RULE, local_prefix="a-", remote_prefix="b-")
    assert local_name(rule, there) == here
    if here is not None:
        assert remote_name(rule, here) == there


def test_sub_topics_follow_their_topic() -> None:
    assert renamed_sub_topic("b/line/1", "team/b", "a") == "a/line/1"
    assert renamed_sub_topic("b", "b", "team/a") == "a"
    assert renamed_sub_topic("", "b", "a") == "a"
    assert renamed_sub_topic("bb/c", "b", "a") == "bb/c"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name_servers": []},
        {"name": "a b"},
        {"secret_file": "/x"},
        {"rules": []},
        {"rules": [{**RULE, "topics": ["a*b"]}]},
        {"rules": [{**RULE, "topics": ["%DLQ%x"]}]},
        {"rules": [{**RULE, "local_prefix": "team/"}]},
        {"rules": [{**RULE, "start": "yesterday"}]},
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any]) -> None:
    RocketMqRemote(**REMOTE)
    with pytest.raises(ValidationError):
        RocketMqRemote(**{**REMOTE, **wrong})


def test_two_clusters_of_one_name() -> None:
    with pytest.raises(ValidationError):
        RocketMqBridgeSettings(remotes=[RocketMqRemote(**REMOTE), RocketMqRemote(**REMOTE)])


class LosesAnswers:
    """Key-values whose next write is done, and its answer lost."""

    def __init__(self, kept: KeyValues) -> None:
        self._kept, self.get = kept, kept.get
        self.is_losing = False

    async def write(self, changes: list[KeyValueChange]) -> int:
        version = await self._kept.write(changes)
        if self.is_losing:
            self.is_losing = False
            raise EntrepotError(Code.OUTCOME_UNKNOWN, "no answer")
        return version


async def test_a_position_is_kept_through_lost_answers_and_never_moved_back_by_a_late_gateway() -> None:
    store = MemoryStore(ManualClock())
    key_values = LosesAnswers(store.key_values)
    ours, late = Positions(key_values, "old"), Positions(store.key_values, "old")  # type: ignore[arg-type]
    mine, theirs = await ours.of("orders"), await late.of("orders")
    assert not mine.queues and await ours.of("orders") is mine
    mine.move(0, 7, 1_000)
    key_values.is_losing = True
    with pytest.raises(EntrepotError):
        await ours.keep()
    await ours.keep()
    mine.move(1, 3, 2_000)
    await ours.keep()
    theirs.move(0, 1, 0)
    with pytest.raises(LeaseLostError):
        await late.keep()
    again = await Positions(store.key_values, "old").of("orders")
    assert again.queues == {0: (7, 1_000), 1: (3, 2_000)}
    await store.close()


async def test_a_bridge_begins_once() -> None:
    store = MemoryStore(ManualClock())
    assert await Positions(store.key_values, "old").begun_ms(5) == 5
    assert await Positions(store.key_values, "old").begun_ms(9) == 5
    await store.close()
