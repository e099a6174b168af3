"""Of two that would write one table only one does, and the other one says why, and what to do."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.tiered.fence import EPOCH_BITS, Fence, FencedError, Writer
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.uploader import LONGEST_PAUSE
from tests.support.tiered.failing_objects import Fault
from tests.tiered.uploads.model_broker import ModelTopic
from tests.tiered.uploads.test_uploader import MIDNIGHT, WRITER, Bench
from tests.tiered.uploads.witness import STORE


def beside(bench: Bench, writer: Writer = WRITER, epoch: int = 0) -> Bench:
    """Another broker with the same messages."""
    other = Bench(bench.objects, writer=writer)
    other.memory = bench.memory
    other.master = other.broker.master = bench.master
    other.broker.epoch = epoch
    return other


def problem(bench: Bench, topic: ModelTopic) -> str:
    """Why it does not go on, after all that it tries."""
    for _ in range(3):
        bench.upload()
        bench.steady += LONGEST_PAUSE + 1
    return bench.broker.progress[topic.root].problem


def ends(bench: Bench, topic: ModelTopic) -> int | None:
    return bench.table(topic).progress(bench.uploader._base)


def test_an_old_master_writes_nothing_after_its_successor() -> None:
    """The failover comes while the old one's commit is on its way."""
    bench = Bench()
    bench.broker.epoch = 1 << EPOCH_BITS
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    successor = beside(bench, Writer(STORE, 2), 2 << EPOCH_BITS)
    bench.publish(topic, MIDNIGHT)

    def failing_over(call: str, path: str) -> Fault:
        if call == "put_new" and path.endswith("2.json"):
            bench.memory.plan = lambda call, path: Fault.NONE
            successor.upload()
        return Fault.NONE

    bench.memory.plan = failing_over
    bench.upload()
    assert ends(bench, topic) == 2
    bench.publish(topic, MIDNIGHT)
    told = problem(bench, topic)
    assert topic.root in told and "a later master (epoch 2.0, this one has 1.0)" in told
    assert ends(bench, topic) == 2, "nothing was written by it"
    successor.upload()
    assert ends(bench, topic) == 3 and not successor.broker.progress[topic.root].problem
    bench.check(topic)


def test_a_successor_shuts_out_by_its_first_commit_alone() -> None:
    """A master that has nothing to upload yet says nothing: the old one may go on until then."""
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    successor = beside(bench, Writer(STORE, 2), 1)
    successor.upload()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    assert ends(bench, topic) == 2 and not bench.broker.progress[topic.root].problem


def test_a_directory_that_is_in_use_twice() -> None:
    """The broker that began last has the table; the other one names table and cure, and does not take it back."""
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    copy = beside(bench, Writer(STORE, 2))
    bench.publish(topic, MIDNIGHT)
    copy.upload()
    bench.publish(topic, MIDNIGHT)
    told = problem(bench, topic)
    assert topic.root in told and f"another broker with the store {STORE}" in told and "End one of them" in told
    copy.upload()
    assert ends(bench, topic) == 3 and not copy.broker.progress[topic.root].problem
    again = beside(bench, Writer(STORE, 3))  # the first one, started anew: it is the last one now
    bench.publish(topic, MIDNIGHT)
    again.upload()
    assert ends(bench, topic) == 4
    assert not again.broker.progress[topic.root].problem


def test_the_table_of_another_store() -> None:
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    other = beside(bench, Writer("c3d4", 1), 5 << EPOCH_BITS)
    bench.publish(topic, MIDNIGHT)
    told = problem(other, topic)
    assert f"{topic.root} is that of the store {STORE}" in told and "a tier.url of its own" in told
    assert ends(bench, topic) == 1


def test_who_takes_a_table_over_shuts_out_who_had_it() -> None:
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    heir = Writer("c3d4", 1)
    table = TopicTable(bench.objects, topic.root, bench.clock, Random(5))
    table.open()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    with pytest.raises(FencedError, match="is that of the store a1b2"):
        Fence(heir).check(topic.root, table.snapshot)
    with pytest.raises(Exception, match="another's commit"):
        table.take_over(Fence(heir))  # it looked before the last commit, of which it would not know
    table.take_over(Fence(heir))
    bench.publish(topic, MIDNIGHT)
    told = problem(bench, topic)
    assert f"{topic.root} was taken over by the store c3d4" in told and "Delete the topic here" in told
    assert ends(bench, topic) == 2
    successor = beside(bench, Writer(STORE, 2), 9 << EPOCH_BITS)
    assert "was taken over" in problem(successor, topic), "no later master of it, either"
    other = beside(bench, heir)
    other.upload()
    assert ends(bench, topic) == 3
    table.refresh()
    table.take_over(Fence(Writer(STORE, 2)))  # and back
    assert table.snapshot.transactions[f"epoch/{STORE}"] == 0


def test_who_is_shut_out_deletes_nothing() -> None:
    bench = Bench()
    topic = bench.topic(retention_ms=1)
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    table = TopicTable(bench.objects, topic.root, bench.clock, Random(5), Fence(WRITER))
    assert table.open()
    successor = beside(bench, Writer(STORE, 2), 1)
    bench.publish(topic, MIDNIGHT)
    successor.upload()
    before = bench.memory.paths()
    table.refresh()
    bench.clock.advance(10**9)
    for act in (lambda: table.vacuum(0), lambda: table.expire(10**15)):
        with pytest.raises(FencedError):
            act()
    assert bench.memory.paths() == before
