"""Work that ends the uploader's process is tried more carefully, then set aside, and the others go on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.tiered import uploader_service
from entrepot.broker.tiered.source import Begun, Caution, Progress, Work
from entrepot.broker.tiered.troubles import FIRST_REST, LONGEST_REST, Troubles
from entrepot.domain.message import Message
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import TOPIC, opened, root
from tests.support.waiting import until
from tests.tiered.uploads.model_broker import RECORD_BYTES
from tests.tiered.uploads.test_uploader import MIDNIGHT, Bench
from tests.tiers.marks import soak_only

ROOT = "t/store-1"


class Story:
    """The troubles of one topic."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.told: list[str] = []
        self.of = Troubles(lambda: self.now, lambda progress: self.told.append(progress.problem))

    def ends(self, /, work: Work = Work.UPLOAD, **ends: int) -> None:
        """An uploader begins something and ends."""
        self.of.begins(Begun("t", ROOT, work, {int(name[1:]): end for name, end in ends.items()}))
        assert self.of.ended("by SIGSEGV")

    def gets_to(self, **ends: int) -> str:
        """Progress is told; its problem."""
        told = Progress("t", ROOT, {int(name[1:]): end for name, end in ends.items()})
        return self.of.with_problem(told).problem


def test_each_end_makes_the_next_try_more_careful_up_to_what_was_tried() -> None:
    story = Story()
    for end, caution in ((100, Caution.SMALLER), (60, Caution.PLAIN), (58, Caution.TINY)):
        story.ends(q0=end)
        assert story.of.caution(ROOT) is caution
    assert "SIGSEGV" in story.told[-1] and "uploaded messages up to offsets of queues 0: 58" in story.told[-1]
    assert story.gets_to(q0=57) and story.of.caution(ROOT) is Caution.TINY
    assert story.gets_to(q0=58) and story.of.caution(ROOT) is Caution.PLAIN, "what was tried with more care is over"
    assert story.gets_to(q0=60) and story.of.caution(ROOT) is Caution.SMALLER
    assert story.gets_to(q0=99) and story.gets_to(q0=100) == ""
    assert story.of.caution(ROOT) is Caution.NONE


def test_what_always_ends_it_rests_for_longer_and_longer() -> None:
    story = Story()
    for _ in range(Caution.SET_ASIDE):
        story.ends(q0=1)
    for rest in (FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST):
        assert story.of.caution(ROOT) is Caution.SET_ASIDE and "set aside" in story.told[-1]
        story.now += rest - 1
        assert story.of.caution(ROOT) is Caution.SET_ASIDE
        story.now += 1
        assert story.of.caution(ROOT) is Caution.ALONE, "the last try is made again"
        assert "set aside" in story.gets_to(), "the problem stays meanwhile"
        story.ends(q0=1)
    for _ in range(20):
        story.ends(q0=1)
    story.now += LONGEST_REST
    assert story.of.caution(ROOT) is Caution.ALONE
    assert story.gets_to(q0=1) == "" and story.of.caution(ROOT) is Caution.NONE


def test_housekeeping_that_ends_it_is_set_aside_and_uploads_go_on() -> None:
    story = Story()
    story.ends(Work.HOUSEKEEPING)
    assert story.of.keeps_house(ROOT)
    story.ends(Work.HOUSEKEEPING)
    assert not story.of.keeps_house(ROOT) and story.of.caution(ROOT) is Caution.NONE
    assert "merged and cleaned the table, 2 times: set aside" in story.gets_to(q0=5)
    story.now += FIRST_REST
    assert story.of.keeps_house(ROOT)
    story.of.begins(Begun("t", ROOT, Work.HOUSEKEEPING))
    story.of.survived()
    assert story.told[-1] == "" and story.gets_to(q0=5) == ""


def test_a_table_that_cannot_be_opened_is_set_aside() -> None:
    story = Story()
    story.ends(Work.OPEN)
    story.ends(Work.OPEN)
    assert story.of.caution(ROOT) is Caution.SET_ASIDE
    story.now += FIRST_REST
    assert story.of.caution(ROOT) is Caution.NONE
    story.of.begins(Begun("t", ROOT, Work.OPEN))
    story.of.begins(Begun("t", ROOT, Work.UPLOAD))
    assert story.told[-1] == "", "it has been opened"


def test_care_ends_with_the_queues_that_it_is_for() -> None:
    story = Story()
    story.ends(q0=10, q2=10)
    story.of.note_firsts("t", ROOT, {0: 0, 1: 0, 2: 0})
    assert story.gets_to(q0=10)
    story.of.note_firsts("t", ROOT, {0: 0, 1: 0})  # the topic has fewer queues now
    assert story.told[-1] == "" and story.of.caution(ROOT) is Caution.NONE


def test_what_the_disk_lets_go_of_is_tried_no_more() -> None:
    story = Story()
    story.ends(q0=10)
    story.of.note_firsts("t", ROOT, {0: 9})
    assert story.gets_to(q0=4)
    story.of.note_firsts("t", ROOT, {0: 10})
    assert story.told[-1] == "" and story.of.caution(ROOT) is Caution.NONE


def test_only_what_is_set_aside_is_stuck() -> None:
    """A stuck topic may be given up by the disk (`max_kept_bytes`): a random kill is no reason for that."""
    story = Story()

    def is_stuck(problem: str = "") -> bool:
        told = Progress("t", ROOT, {0: 0}, problem, is_stuck=bool(problem))
        return story.of.with_problem(told).is_stuck

    story.ends(Work.HOUSEKEEPING)
    story.ends(Work.HOUSEKEEPING)
    for number in range(Caution.SET_ASIDE):
        assert not is_stuck() and is_stuck("the store is away")
        story.ends(q0=10 - number)
    assert is_stuck()


def test_an_upload_says_about_how_far_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process ends while it reads, only that is tried with more care, and not all that waits."""
    bench = Bench(segment_bytes=20 * RECORD_BYTES)
    topic = bench.topic()
    bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 500))
    begun: list[Begun] = []
    before = bench.broker.begins
    monkeypatch.setattr(bench.broker, "begins", lambda each: (begun.append(each), before(each)))
    while bench.uploader.round():
        pass
    uploads = [each.ends[0] for each in begun if each.work is Work.UPLOAD]
    assert uploads[0] == 20 and len(uploads) > 30
    assert all(after - first <= 40 for first, after in pairwise(uploads)), "of each segment, and not of the queue"


def test_an_end_at_nothing_is_nobodys() -> None:
    story = Story()
    assert not story.of.ended("by SIGKILL")
    story.of.begins(Begun("t", ROOT, Work.HOUSEKEEPING))
    story.of.survived()
    assert not story.of.ended("by SIGKILL") and story.told == []


# -- a process that ends ----------------------------------------------------------------------------------------------

POISON = """
import os, signal, sys
from entrepot.broker.tiered.upload import process, uploader

rows_of_run = uploader.rows_of_run

def rows(run, columns, base, queue_id):
    for word, most in ((b"crowded", 1), (b"deadly", 0)):
        if word in bytes(run.data) and len(columns) > most:
            os.kill(os.getpid(), signal.SIGSEGV)
    if b"stopped" in bytes(run.data):
        os.kill(os.getpid(), signal.SIGSTOP)
    return rows_of_run(run, columns, base, queue_id)

uploader.rows_of_run = rows
try:
    process.main(int(sys.argv[1]))
except EOFError:
    os._exit(0)
"""


def started_with_poison(channel: socket.socket) -> subprocess.Popen[bytes]:
    """An uploader that some messages end."""
    with channel:
        return subprocess.Popen(
            [sys.executable, "-c", POISON, str(channel.fileno())],
            pass_fds=[channel.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader_service, "_started", started_with_poison)
    monkeypatch.setattr("entrepot.broker.tiered.tier.FIRST_PAUSE", 0.01)


def bodies(*given: bytes) -> list[Message]:
    return [Message("factory", body, queue_id=0) for body in given]


async def published(store: Broker, messages: list[Message]) -> None:
    assert not any(await append_all(store, *messages))


def told(store: Broker, topic: str) -> Any:
    assert store.tier is not None
    found = [each for each in store.tier.progress.values() if each.topic == topic]
    return found[0] if found else Progress(topic, "", {})


@pytest.mark.soak
async def test_a_message_that_ends_the_process_beside_others_is_uploaded_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, bodies(*(b"%d" % n for n in range(20)), b"crowded", *(b"%d" % n for n in range(20))))
        await until(lambda: "SIGSEGV" in told(store, "factory").problem, "it is told by what")
        await until(lambda: told(store, "factory").ends.get(0) == 41, "all is uploaded")
        await until(lambda: not told(store, "factory").problem, "and the problem is over")


@pytest.mark.soak
async def test_a_message_that_always_ends_the_process_stops_its_topic_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        for topic in (TOPIC, replace(TOPIC, name="other", queues=1)):
            await store.topology.put_topic(topic)
        await published(store, bodies(*(b"%d" % n for n in range(20)), b"deadly", b"behind"))
        await until(lambda: "set aside" in told(store, "factory").problem, "its topic is set aside")
        await published(store, [Message("other", b"%d" % n, queue_id=0) for n in range(50)])
        await until(lambda: told(store, "other").ends.get(0) == 50, "the other is uploaded")
        assert not told(store, "other").problem
        assert store.tier is not None and store.tier.problem == "" and store.tier.service.is_well
        gauges = await store.condition.gauges()
        assert gauges["tier_problems"] == 1
        [status] = [each for each in await store.condition.tiering() if each.topic == "factory"]
        assert "SIGSEGV" in status.problem and status.lag_messages == 2, "all before it are in the table"
        queue = store.engine.dispatcher.queue("factory", 0)
        assert store.tier.kept_from(queue) == 20, "the disk keeps it"
        assert root(store) in store.tier.progress


@pytest.mark.soak
async def test_a_random_kill_gives_nothing_up(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, max_kept_bytes=1) as store:
        tier = store.tier
        assert tier is not None
        await store.topology.put_topic(TOPIC)
        await published(store, bodies(*(b"%d" % n for n in range(20)), b"crowded", *(b"%d" % n for n in range(20))))
        clock.advance(120_000)
        await until(lambda: "SIGSEGV" in told(store, "factory").problem, "it is told by what")
        await until(lambda: told(store, "factory").ends.get(0) == 41, "all is uploaded")
        [status] = await store.condition.tiering()
        assert status.missing == 0


@pytest.mark.parametrize("goes", ["deleted", soak_only("off")])
async def test_a_problem_goes_with_its_topic(tmp_path: Path, goes: str) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        tier = store.tier
        assert tier is not None
        await store.topology.put_topic(TOPIC)
        await published(store, bodies(b"deadly"))
        await until(lambda: told(store, "factory").problem, "it has one")
        assert (await store.condition.gauges())["tier_problems"] == 1
        if goes == "deleted":
            await store.topology.delete_topic("factory")
        else:
            await store.topology.put_topic(replace(TOPIC, tier_seconds=None))
        assert (await store.condition.gauges())["tier_problems"] == 0


@pytest.mark.soak
async def test_an_uploader_that_says_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader_service, "SILENT_SECONDS", 8.0)
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, bodies(b"stopped"))
        await until(lambda: "asked nothing" in told(store, "factory").problem, "it is known by what")


async def test_one_that_ends_at_nothing_is_a_problem_until_another_has_lived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader_service, "PATIENCE_SECONDS", 1.0)
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        tier = store.tier
        assert tier is not None
        await until(lambda: tier.service.process is not None and not tier.problem, "one is at work")
        process = tier.service.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: "ends again" in tier.problem, "it is told")
        await until(lambda: not tier.problem, "another one has lived for a while")
