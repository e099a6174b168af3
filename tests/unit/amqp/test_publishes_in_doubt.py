"""A publisher is told a nack of messages of which nobody knows whether they were stored, and its connection stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.connections.publishing import _Sent
from tests.support.cases import cases

DOUBT = EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")


class Publishing:
    """A channel's publishing as far as answers go.  `told`: (tags, whether it is a nack)."""

    def __init__(self) -> None:
        self.told: list[tuple[list[int], bool]] = []
        self.refused_in_tx = 0
        self.services = SimpleNamespace(counters=SimpleNamespace(refused=0, confirmed=0), storage_full=lambda: None)
        self.out = SimpleNamespace(
            number=1,
            is_open=True,
            machine=SimpleNamespace(confirm=self._confirm),
            driver=SimpleNamespace(flush=lambda: None, peer="a peer"),
        )

    def note_under_way(self, change: int) -> None:
        """It is said that the run is on its way no more."""

    def _confirm(self, number: int, tags: list[int], is_nack: bool = False) -> None:
        self.told.append((list(tags), is_nack))


@cases(
    "name, tags, told, in_tx",
    [("with confirms", [4, 5], [([4, 5], True)], 0), ("without", [], [], 2), ("of a transaction", [], [], 2)],
)
def test_a_channel_goes_on_after_publishes_in_doubt(name: str, tags: list[int], told: list[Any], in_tx: int) -> None:
    publishing = Publishing()
    _Sent(cast("Any", publishing), 2, tags)(DOUBT, None)
    assert publishing.told == told
    assert publishing.refused_in_tx == in_tx, "a commit says that it was not complete"
    assert publishing.services.counters.refused == 2


@pytest.mark.parametrize("refusal", [None, EntrepotError(Code.FORBIDDEN, "no")])
def test_of_the_others_it_says_what_is_known(refusal: EntrepotError | None) -> None:
    publishing = Publishing()
    _Sent(cast("Any", publishing), 2, [1, 2])(None, [None, refusal] if refusal else None)
    assert publishing.told == ([([1], False), ([2], True)] if refusal else [([1, 2], False)])
