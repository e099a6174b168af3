"""Queries over several brokers: every message once, the newest first, whatever the size of a page; or a wait for a
master."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.broker_of_queue import first_place, local_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.query import MessagePage, MessageQuery
from entrepot.store_client.remote.broker_client import unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.finder import RemoteFinder
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.cases import cases
from tests.support.waiting import until


class OneBroker(ScriptedBroker):
    """A broker that answers queries as the engine does: newest place first, its cursor a place."""

    def __init__(self, number: int, times: list[int]) -> None:
        super().__init__(number)
        self.messages = [
            StoredMessage("t", b"", queue_id=0, commit_log_offset=place, store_time_ms=time)
            for place, time in enumerate(times)
        ]

    async def query(self, query: MessageQuery) -> MessagePage:
        before = len(self.messages) if query.cursor is None else int(query.cursor)
        page = self.messages[:before][::-1][: query.limit]
        is_more = before > len(page)
        return MessagePage(page, str(page[-1].commit_log_offset) if is_more else None)


async def pages_of(brokers: list[list[OneBroker]], limit: int) -> list[MessagePage]:
    """One page after the other; of each the brokers that are there then, the last ones from then on."""
    steps = iter(brokers)
    cluster = SimpleNamespace(readers_of_topic=lambda topic: next(steps, brokers[-1]), clients={})
    finder = RemoteFinder(cast("Cluster", cluster))
    pages = [await finder.query(MessageQuery("t", limit=limit))]
    while pages[-1].next is not None:
        pages.append(await finder.query(MessageQuery("t", limit=limit, cursor=pages[-1].next)))
        assert len(pages) < 200
    return pages


def run(brokers: list[list[OneBroker]], limit: int) -> list[MessagePage]:
    return asyncio.run(pages_of(brokers, limit))


TIMES = st.lists(st.integers(0, 20), max_size=15)


@given(st.lists(TIMES.map(sorted), min_size=1, max_size=4), st.integers(1, 12))
def test_every_message_once_and_the_newest_first(times: list[list[int]], limit: int):
    brokers = [OneBroker(3 * number, each) for number, each in enumerate(times)]
    pages = run([brokers], limit)
    found = [(m.store_time_ms, m.commit_log_offset) for page in pages for m in page.messages]
    assert found == sorted(found, reverse=True)
    assert sorted(place for _, place in found) == sorted(places_of(brokers))
    assert all(len(page.messages) == limit for page in pages[:-1])


@given(st.lists(TIMES, min_size=2, max_size=3), st.integers(1, 12))
def test_every_message_once_where_clocks_were_set_back(times: list[list[int]], limit: int):
    brokers = [OneBroker(number, each) for number, each in enumerate(times)]
    pages = run([brokers], limit)
    assert sorted(m.commit_log_offset for page in pages for m in page.messages) == sorted(places_of(brokers))


def test_a_broker_that_comes_between_two_pages_changes_nothing_and_one_that_goes_is_told():
    one, two = OneBroker(0, [1, 3, 5, 7]), OneBroker(1, [2, 4, 6, 8])
    found = [m.commit_log_offset for page in run([[one], [one, two]], 2) for m in page.messages]
    assert found == places_of([one])[::-1]
    with pytest.raises(EntrepotError) as refused:
        run([[one, two], [one]], 2)
    assert refused.value.code == Code.UNAVAILABLE, "nothing is left out in silence"


async def test_a_query_waits_for_the_next_master_as_other_questions_do():
    client = SimpleNamespace(known=SimpleNamespace(replicas=((1, "a:1"), (2, "b:1"))), is_ready=False)
    cluster = SimpleNamespace(clients={"a:1": client}, ready_watchers=[])

    def readers_of_topic(topic: str) -> list[OneBroker]:
        if not client.is_ready:
            raise unavailable("it moves")
        return [OneBroker(0, [1, 2])]

    cluster.readers_of_topic = readers_of_topic
    asked = asyncio.ensure_future(RemoteFinder(cast("Cluster", cluster)).query(MessageQuery("t")))
    await until(lambda: cluster.ready_watchers or asked.done(), "it waits")
    assert not asked.done()
    client.is_ready = True
    for watcher in tuple(cluster.ready_watchers):
        watcher(client, True)
    assert len((await asked).messages) == 2


def places_of(brokers: list[OneBroker]) -> list[int]:
    return [first_place(b.number) + local_place(m.commit_log_offset) for b in brokers for m in b.messages]


@cases("cursor", ["", "x", "[]", '{"0": 1}', "7", "{"])
def test_what_is_no_cursor_is_refused(cursor: str):
    async def asked() -> None:
        cluster = SimpleNamespace(readers_of_topic=lambda topic: [OneBroker(0, [1])])
        await RemoteFinder(cast("Cluster", cluster)).query(MessageQuery("t", cursor=cursor))

    with pytest.raises(EntrepotError) as refused:
        asyncio.run(asked())
    assert refused.value.code == Code.BAD_REQUEST
