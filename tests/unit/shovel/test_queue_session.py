"""A shovel's session tells its source that it is done with what the target has, and with nothing else."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic

from entrepot.gateway.shovel.plan import QueueProgress, ShovelError, ShovelPlan
from entrepot.gateway.shovel.queue_session import QueueSession
from tests.support.waiting import until

PLAN = ShovelPlan("amqp://source/", "amqp://target/", 50, True, False)


class Source:
    """Delivers what it is told to, and notes what is acknowledged."""

    def __init__(self) -> None:
        self.closing = asyncio.get_running_loop().create_future()
        self.carry: Any = None
        self.acknowledged: list[tuple[int, bool]] = []

    async def basic_qos(self, *, prefetch_count: int) -> None: ...

    async def queue_declare(self, queue: str, *, passive: bool) -> Any:
        return SimpleNamespace(message_count=0)

    async def basic_consume(self, queue: str, carry: Any) -> None:
        self.carry = carry

    async def basic_ack(self, tag: int, *, multiple: bool, wait: bool) -> None:
        self.acknowledged.append((tag, multiple))

    def deliver(self, tag: int) -> asyncio.Task[None]:
        header = SimpleNamespace(properties=Basic.Properties())
        message = SimpleNamespace(delivery_tag=tag, exchange="", routing_key="q", header=header, body=b"%d" % tag)
        return asyncio.create_task(self.carry(message))


class Target(Source):
    """Answers a publish when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[bytes, asyncio.Future[Any]] = {}

    async def basic_publish(self, body: bytes, **how: object) -> Any:
        answer = self.answers[body] = asyncio.get_running_loop().create_future()
        return await answer


async def three_on_their_way() -> tuple[Source, Target, asyncio.Task[None], list[asyncio.Task[None]]]:
    """Both ends, a session between them, and what carries three messages, which the target has not answered."""
    source, target = Source(), Target()
    session = QueueSession(PLAN, "guest", source, target, QueueProgress("q"), lambda progress: None)  # type: ignore[arg-type]
    running = asyncio.create_task(session.run())
    await until(lambda: source.carry, "it consumes")
    carrying = [source.deliver(tag) for tag in (1, 2, 3)]
    await until(lambda: len(target.answers) == 3, "all are on their way")
    return source, target, running, carrying


async def test_what_the_target_refuses_stays_at_the_source_with_all_behind_it() -> None:
    source, target, running, carrying = await three_on_their_way()
    for body in (b"1", b"3"):
        target.answers[body].set_result(Basic.Ack())
    await asyncio.wait((carrying[0], carrying[2]))
    assert source.acknowledged == [(1, True)]
    target.answers[b"2"].set_exception(aiormq.exceptions.DeliveryError(None, Basic.Nack()))
    await carrying[1]
    with pytest.raises(aiormq.exceptions.DeliveryError):
        await running
    assert source.acknowledged == [(1, True)]


async def test_what_was_confirmed_together_is_acknowledged_together() -> None:
    source, target, running, carrying = await three_on_their_way()
    for body in (b"3", b"2", b"1"):
        target.answers[body].set_result(Basic.Ack())
    await asyncio.gather(*carrying)
    assert source.acknowledged == [(3, True)]
    running.cancel()
    await asyncio.wait((running,))


async def test_a_message_that_cannot_be_written_stays_and_the_others_are_carried() -> None:
    source, target, running, carrying = await three_on_their_way()
    target.answers[b"2"].set_exception(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"))
    await carrying[1]
    for body in (b"1", b"3"):
        target.answers[body].set_result(Basic.Ack())
    carrying.append(source.deliver(4))
    await until(lambda: b"4" in target.answers, "the next one is on its way")
    target.answers[b"4"].set_result(Basic.Ack())
    await asyncio.gather(*carrying)
    assert sorted(source.acknowledged) == [(1, False), (3, False), (4, False)], "2 is not acknowledged with them"
    running.cancel()
    await asyncio.wait((running,))


async def test_when_nothing_else_can_be_delivered_it_ends() -> None:
    source, target, running, carrying = await three_on_their_way()
    for tag in range(4, PLAN.prefetch + 1):
        carrying.append(source.deliver(tag))
    await until(lambda: len(target.answers) == PLAN.prefetch, "all are on their way")
    for answer in target.answers.values():
        answer.set_exception(ValueError("odd"))
    await asyncio.gather(*carrying)
    with pytest.raises(ShovelError, match="50 messages cannot be carried"):
        await running
    assert source.acknowledged == []
