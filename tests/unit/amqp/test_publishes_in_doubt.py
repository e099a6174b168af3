"""A publisher is told a nack of messages of which nobody knows whether they were stored, and its connection stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from domain.errors import Code, EntrepotError
from gateway.amqp.connections.publishing import _Sent
from tests.support.cases import cases

DOUBT = EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")


class Channel:
    """A channel as far as answers go.  `told`: (tags, whether it is a nack)."""

    number = 1
    is_open = True

    def __init__(self) -> None:
        self.told: list[tuple[list[int], bool]] = []
        self.closed: list[object] = []
        self.publishing = SimpleNamespace(note_under_way=lambda change: None, refused_in_tx=0)
        counters = SimpleNamespace(refused=0, confirmed=0)
        self.frontend = SimpleNamespace(counters=counters, storage_full=lambda: None)
        self.conversation = SimpleNamespace(
            machine=SimpleNamespace(confirm=self._confirm),
            frontend=self.frontend,
            flush=lambda: None,
            close_connection=self.closed.append,
            peer="a peer",
        )

    def _confirm(self, number: int, tags: list[int], is_nack: bool = False) -> None:
        self.told.append((list(tags), is_nack))


@cases(
    "name, tags, told, in_tx",
    [("with confirms", [4, 5], [([4, 5], True)], 0), ("without", [], [], 2), ("of a transaction", [], [], 2)],
)
def test_it_goes_on(name: str, tags: list[int], told: list[Any], in_tx: int) -> None:
    channel = Channel()
    _Sent(cast("Any", channel), 2, tags)(DOUBT, None)
    assert channel.told == told and not channel.closed
    assert channel.publishing.refused_in_tx == in_tx, "a commit says that it was not complete"
    assert channel.frontend.counters.refused == 2


@pytest.mark.parametrize("refusal", [None, EntrepotError(Code.FORBIDDEN, "no")])
def test_of_the_others_it_says_what_is_known(refusal: EntrepotError | None) -> None:
    channel = Channel()
    _Sent(cast("Any", channel), 2, [1, 2])(None, [None, refusal] if refusal else None)
    assert channel.told == ([([1], False), ([2], True)] if refusal else [([1, 2], False)])
