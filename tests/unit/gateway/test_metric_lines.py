"""Lines of metrics that grow with topics and groups: a reader of Prometheus' format gets back what was written."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.metrics.metric_families import FamilyLines
from entrepot.gateway.work.fresh import Fresh

ROWS = st.dictionaries(
    st.tuples(st.text(max_size=8), st.text('ab\\\n"{},= ', max_size=8)),
    st.tuples(st.integers(0, 2**53), st.integers(-9, 9)),
    max_size=5,
)


@given(st.lists(ROWS, max_size=3))
def test_each_row_is_read_as_it_was_written(pages):
    lines = FamilyLines("counter", ("topic", "group"), {"in": "Messages in", "out": "Messages out"})
    for page in pages:
        lines.write(page.items())
    families = list(text_string_to_metric_families(b"".join(lines.text()).decode()))
    assert [(f.name, f.type, f.documentation) for f in families] == [
        ("in", "counter", "Messages in"),
        ("out", "counter", "Messages out"),
    ]
    for place, family in enumerate(families):
        read = [((s.name, s.labels["topic"], s.labels["group"]), s.value) for s in family.samples]
        wanted = [
            ((f"{family.name}_total", topic, group), numbers[place])
            for page in pages
            for (topic, group), numbers in page.items()
        ]
        assert read == wanted


def test_labels_are_in_order_of_their_names():
    lines = FamilyLines("gauge", ("topic", "consumer_group"), {"lag": "Lag"})
    lines.write([(("t", "g"), (7,))])
    assert b"".join(lines.text()).splitlines() == [
        b"# HELP lag Lag",
        b"# TYPE lag gauge",
        b'lag{consumer_group="g",topic="t"} 7',
    ]


class Counted:
    """An answer that counts its makings."""

    def __init__(self) -> None:
        self.made, self.refusal = 0, ""
        self.may_go_on = asyncio.Event()

    async def make(self) -> int:
        await self.may_go_on.wait()
        if self.refusal:
            raise EntrepotError(Code.UNAVAILABLE, self.refusal)
        self.made += 1
        return self.made


async def test_a_dear_answer_is_made_once_for_all_who_ask():
    counted = Counted()
    fresh = Fresh(counted.make, 3600, 0)
    asking = [asyncio.create_task(fresh.get()) for _ in range(5)]
    counted.may_go_on.set()
    assert await asyncio.gather(*asking) == [1] * 5
    assert await fresh.get() == 1


async def test_an_old_answer_is_made_anew():
    counted = Counted()
    counted.may_go_on.set()
    fresh = Fresh(counted.make, 0.0, 0)
    assert await fresh.get() == 1
    while await fresh.get() == 1:
        await asyncio.sleep(0)
    assert counted.made == 2


async def test_a_cheap_answer_is_the_present_one():
    counted = Counted()
    counted.may_go_on.set()
    fresh = Fresh(counted.make, 3600, 3600)
    assert [await fresh.get() for _ in range(3)] == [1, 2, 3]


async def test_who_asks_after_a_failure_tries_again():
    counted = Counted()
    counted.may_go_on.set()
    counted.refusal = "away"
    fresh = Fresh(counted.make, 3600, 0)
    with pytest.raises(EntrepotError, match="away"):
        await fresh.get()
    counted.refusal = ""
    assert await fresh.get() == 1
