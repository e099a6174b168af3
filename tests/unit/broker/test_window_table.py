"""The table of windows: its indexes have what it has, whatever was done."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.consume.window_table import WindowTable

NAMES = st.sampled_from("abc")


class Tables(RuleBasedStateMachine):
    """A table beside a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.table = WindowTable()
        self.plain: dict[tuple[str, str], dict[int, ConsumeWindow]] = {}

    @rule(group=NAMES, topic=NAMES)
    def make(self, group: str, topic: str) -> None:
        made = self.table.made(group, topic)
        assert made is self.table.made(group, topic) and made == {}
        self.plain[group, topic] = made

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.plain)))
        del self.table[key]
        del self.plain[key]

    @invariant()
    def indexes_have_what_it_has(self) -> None:
        assert self.table == self.plain
        for name in "abc":
            by_topic = {topic: windows for (group, topic), windows in self.plain.items() if group == name}
            by_group = {group: windows for (group, topic), windows in self.plain.items() if topic == name}
            assert self.table.of_group(name) == by_topic and self.table.of_topic(name) == by_group
        assert set(self.table._topics) == {group for group, _ in self.plain}
        assert set(self.table._groups) == {topic for _, topic in self.plain}


test_table = Tables.TestCase
