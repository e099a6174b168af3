"""Which queues of a channel look for messages, and when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from entrepot.gateway.amqp.connections.turns import Turns


class Looks:
    """Three queues of a channel with so much room; `later` are the loop's timers."""

    def __init__(self, room: int, queues: str = "abc") -> None:
        self.seen: list[str] = []
        self.later: list[Callable[[], None]] = []
        loop: Any = SimpleNamespace(call_later=self._call_later)
        limits: Any = SimpleNamespace(room=room)
        of: Any = queues
        self.turns = Turns(loop, limits, lambda: of, self.seen.append)  # type: ignore[arg-type]

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.later.append(call)
        return SimpleNamespace(cancel=lambda: self.later.remove(call))

    def look(self) -> str:
        self.seen.clear()
        self.turns.look()
        return "".join(self.seen)


def test_with_room_for_all_they_look_at_once() -> None:
    assert Looks(room=5, queues="abca").look() == "bca"


def test_as_many_as_there_is_room_for_look_in_turn_and_the_others_later() -> None:
    on = Looks(room=1)
    assert [on.look() for _ in range(4)] == ["b", "c", "a", "b"]
    assert len(on.later) == 1
    on.seen.clear()
    on.later.pop()()
    assert on.seen == ["a", "b", "c"]
    assert Looks(room=2).look() == "bc"
    assert Looks(room=0).look() == "b"


def test_one_queue_needs_no_turn() -> None:
    on = Looks(room=1, queues="a")
    assert (on.look(), on.later) == ("a", [])


def test_a_channel_that_has_gone_looks_no_more() -> None:
    on = Looks(room=1)
    on.look()
    on.turns.close()
    assert (on.later, on.look()) == ([], "")
