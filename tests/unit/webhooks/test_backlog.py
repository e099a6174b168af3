"""What is kept of the events of a sink that nothing may be sent to: the newest, up to a limit over all queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.definitions.consumer_group import QueueProgress
from entrepot.gateway.events.webhooks.backlog import Backlog, feed_progress, oldest_kept
from entrepot.gateway.settings import WebhookSettings
from tests.support.cases import cases
from tests.unit.webhooks.world import bodies_of, world


def queues(lags: list[int], end: int = 1000) -> list[QueueProgress]:
    return [QueueProgress("feed", number, end - lag, end, 0, lag) for number, lag in enumerate(lags)]


@cases(
    "lags, most, kept",
    [
        ([], 5, {}),
        ([5], 5, {}),
        ([6], 5, {0: 995}),
        ([900], 5, {0: 995}),
        ([2, 3], 5, {}),
        ([1, 90], 5, {1: 996}),
        ([90, 1], 5, {0: 996}),
        ([90, 90], 6, {0: 997, 1: 997}),
        ([1, 90, 90], 7, {1: 997, 2: 997}),
        ([0, 0, 90], 4, {2: 996}),
    ],
)
def test_what_is_kept(lags: list[int], most: int, kept: dict[int, int]) -> None:
    assert oldest_kept(queues(lags), most) == kept


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(1, 100))
def test_the_limit_is_kept_to_and_used(lags: list[int], most: int) -> None:
    kept_from = oldest_kept(queues(lags), most)
    kept = [min(lag, 1000 - kept_from.get(number, 0)) for number, lag in enumerate(lags)]
    assert sum(kept) <= most and (sum(kept) == sum(lags) or sum(kept) > most - len(lags))
    cut = {kept[number] for number in kept_from}
    assert len(cut) <= 1 and all(count <= min(cut) for count in kept for _ in cut), "the longest give theirs"


async def test_what_is_kept_has_not_been_attempted() -> None:
    async with world(WebhookSettings(max_waiting_events=3)) as made:
        backlog = Backlog(made.context, made.leased, lambda: True)
        await made.feed("a", "b", "c")
        await backlog.keep_to_limit(made.subscription)
        assert await made.waiting() == 3
        await made.feed("d", "e")
        await backlog.keep_to_limit(made.subscription)
        tickets = await made.take()
        assert (bodies_of(tickets), {each.attempt for each in tickets}) == (["c", "d", "e"], {1})
        assert [body for body, _ in await made.dead_letters()] == ["a", "b"]


async def test_what_may_be_sent_by_now_is_left_alone() -> None:
    async with world(WebhookSettings(max_waiting_events=1)) as made:
        await made.feed("a", "b", "c")
        await Backlog(made.context, made.leased, lambda: False).keep_to_limit(made.subscription)
        tickets = await made.take()
        assert (bodies_of(tickets), {each.attempt for each in tickets}) == (["a", "b", "c"], {1})
        assert await made.dead_letters() == [] and not made.context.incidents.counts


async def test_what_was_never_read_waits_too() -> None:
    async with world() as made:
        await made.feed("a", "b")
        assert [each.lag for each in await feed_progress(made.store, made.subscription)] == [2]
        made.leased.acknowledge(await made.take(1))
        await made.leased.settle()
        assert [each.lag for each in await feed_progress(made.store, made.subscription)] == [1]
        await made.subscriptions.delete(made.subscription)
        await Backlog(made.context, made.leased, lambda: True).keep_to_limit(made.subscription)
