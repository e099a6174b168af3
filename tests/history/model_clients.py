"""Producers, consumers and readers of the model store, as generators of calls."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.history.model_store import ModelMessage, ModelStore
from tests.history.model_world import Call, Client
from tests.history.operations import (
    Acknowledge,
    AnyOperation,
    Change,
    Get,
    Hand,
    Item,
    Outcome,
    Pop,
    Publish,
    Read,
    Tailed,
    Write,
)

TOPIC, QUEUES, KEY = "t", 2, "k"
NOT_CURRENT = {"outcome": Outcome.FAILED, "code": "INVALID_RECEIPT_HANDLE"}


def publish(store: ModelStore, queue: int, batch: int, messages: list[ModelMessage]) -> Call[None]:
    def note(times: dict[str, Any], _: None) -> list[AnyOperation]:
        return [
            Publish(
                **times,
                topic=TOPIC,
                queue=queue,
                message=each.name,
                digest=each.digest,
                message_group=each.message_group,
                batch=batch,
                place=place,
            )
            for place, each in enumerate(messages)
        ]

    def perform(now_ms: int) -> None:
        store.publish(TOPIC, queue, messages)

    return Call(perform, note, lambda: store.refuse(TOPIC, queue, messages))


def pop(store: ModelStore, group: str, most: int, invisible_ms: int) -> Call[list[Hand]]:
    is_fifo = group == "fifo"

    def note(times: dict[str, Any], hands: list[Hand] | None) -> list[AnyOperation]:
        found = tuple(hands or ())
        return [Pop(**times, topic=TOPIC, group=group, invisible_ms=invisible_ms, is_fifo=is_fifo, hands=found)]

    return Call(lambda now_ms: store.pop(TOPIC, group, most, invisible_ms, now_ms, is_fifo=is_fifo), note)


def acknowledge(store: ModelStore, group: str, handle: str) -> Call[bool]:
    def note(times: dict[str, Any], taken: bool | None) -> list[AnyOperation]:
        told = {**times, **(NOT_CURRENT if taken is False else {})}
        return [Acknowledge(**told, topic=TOPIC, group=group, handle=handle)]

    return Call(lambda now_ms: store.acknowledge(TOPIC, group, handle), note)


def change(store: ModelStore, group: str, handle: str, delay_ms: int, release: bool, suspend: bool) -> Call[bool]:
    def note(times: dict[str, Any], taken: bool | None) -> list[AnyOperation]:
        told = {**times, **(NOT_CURRENT if taken is False else {})}
        return [
            Change(
                **told,
                topic=TOPIC,
                group=group,
                handle=handle,
                delay_ms=delay_ms,
                is_release=release,
                is_suspended=suspend,
            )
        ]

    def perform(now_ms: int) -> bool:
        return store.change(TOPIC, group, handle, now_ms + delay_ms, is_release=release, is_suspended=suspend)

    return Call(perform, note)


def read(store: ModelStore, queue: int, first: int, most: int, lag: int = 0) -> Call[list[Item]]:
    """`lag`: so many messages a slave does not know yet."""

    def note(times: dict[str, Any], items: list[Item] | None) -> list[AnyOperation]:
        found = tuple(items or ())
        return [Read(**times, topic=TOPIC, queue=queue, first=first, most=most, may_lag=lag > 0, items=found)]

    def perform(now_ms: int) -> list[Item]:
        found = store.read(TOPIC, queue, first, most)
        return found[: len(found) - lag] if lag < len(found) else found[:0] if lag else found

    return Call(perform, note)


def tail(store: ModelStore, name: str, queue: int, first: int, due: int) -> Call[list[Item]]:
    def note(times: dict[str, Any], items: list[Item] | None) -> list[AnyOperation]:
        found = tuple(items or ())
        return [Tailed(**times, topic=TOPIC, queue=queue, tail=name, first=first, items=found)]

    return Call(lambda now_ms: store.tail(TOPIC, queue, due, 10), note)


def write(store: ModelStore, value: str, expected: int | None) -> Call[int | None]:
    def note(times: dict[str, Any], version: int | None) -> list[AnyOperation]:
        is_refused = times["outcome"] is Outcome.OK and version is None
        told = {**times, "outcome": Outcome.FAILED, "code": "PRECONDITION_FAILED"} if is_refused else times
        return [Write(**told, key=KEY, value=value, expected=expected, version=version or 0)]

    return Call(lambda now_ms: store.write(KEY, value, expected), note)


def get(store: ModelStore) -> Call[tuple[str, int]]:
    def note(times: dict[str, Any], found: tuple[str, int] | None) -> list[AnyOperation]:
        value, version = found or ("", 0)
        return [Get(**times, key=KEY, value=value, version=version)]

    return Call(lambda now_ms: store.get(KEY), note)


# -- what clients do -------------------------------------------------------------------------------------------------


def producer(store: ModelStore, name: str, chance: Random, batches: int) -> Client:
    for batch in range(batches):
        names = [f"{name}-{batch}-{place}" for place in range(chance.choice((1, 1, 2, 3)))]
        messages = [ModelMessage(each, f"body of {each}", chance.choice(("", "x", "y"))) for each in names]
        yield publish(store, chance.randrange(QUEUES), batch, messages)
        yield chance.expovariate(0.2)


def consumer(store: ModelStore, group: str, chance: Random, rounds: int) -> Client:
    old: list[str] = []
    for _ in range(rounds):
        invisible_ms = chance.choice((5, 30, 100))
        answer = yield pop(store, group, chance.randint(1, 4), invisible_ms)
        handles = [hand.handle for hand in answer.value or ()]
        yield chance.choice((0.0, 2.0, 20.0))
        for handle in handles:
            deed = chance.random()
            if deed < 0.55:
                yield acknowledge(store, group, handle)
            elif deed < 0.75:
                delay_ms = chance.choice((0, 20, 60))
                is_release = chance.random() < 0.6
                yield change(store, group, handle, delay_ms, is_release, is_release and chance.random() < 0.3)
            old.append(handle)
        if old and chance.random() < 0.5:
            yield acknowledge(store, group, chance.choice(old))
        yield chance.expovariate(0.2)


def reader(store: ModelStore, chance: Random, rounds: int) -> Client:
    for _ in range(rounds):
        lag = chance.choice((0, 0, 1, 3))
        yield read(store, chance.randrange(QUEUES), chance.choice((0, 0, 1, 3)), chance.choice((2, 100)), lag)
        yield chance.expovariate(0.1)


def follower(store: ModelStore, name: str, queue: int, first: int, rounds: int) -> Client:
    due = first
    for _ in range(rounds):
        answer = yield tail(store, name, queue, first, due)
        due += len(answer.value or ())
        yield 8.0
    while (yield tail(store, name, queue, first, due)).value:
        due += 10
        yield 1.0


def keeper(store: ModelStore, name: str, chance: Random, rounds: int) -> Client:
    known = 0
    for number in range(rounds):
        if chance.random() < 0.5:
            yield write(store, f"{name}-{number}", chance.choice((None, known)))
        else:
            answer = yield get(store)
            known = answer.value[1] if answer.value else known
        yield chance.expovariate(0.2)


def drainer(store: ModelStore, group: str) -> Client:
    """Everything that a group has not settled; the world is calm."""
    empty = 0
    while empty < 3:
        answer = yield pop(store, group, 100, 1000)
        for hand in answer.value:
            yield acknowledge(store, group, hand.handle)
        empty = 0 if answer.value else empty + 1
        yield 200.0
