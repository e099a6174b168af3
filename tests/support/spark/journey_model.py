"""A model of one message's journey: what was done to it, and every hop that this must have made."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

TIMED, UNTIMED, UNKNOWN = "with a time", "at a time that is not kept", "not known"
MARGIN_MS: Final = 5
"""Times are cut to milliseconds, and a trace is written down a little after what it tells of."""


@dataclass(frozen=True)
class Step:
    """One expected hop.  `when`: how much of its time is known; `during`: what was done meanwhile."""

    kind: str
    attempt: int | None = None
    outcome: str | None = None
    when: str = TIMED
    during: str | None = None
    topic: str | None = None


@dataclass
class Model:
    """What was done to a message, and the hops that this must have made: for each lane its steps in order."""

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    lanes: dict[str, list[Step]] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    """Steps, by lane and kind, each of which was over before the next began."""

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Note when something was done, in epoch milliseconds."""
        begun = time.time() * 1000
        yield
        self.spans[what] = begun, time.time() * 1000

    def expect(self, lane: str, *steps: Step) -> None:
        self.lanes[lane] = list(steps)

    def check(self, journey: dict[str, Any]) -> None:
        """Compare a journey: its lanes, their hops, the times of these, and the order of all."""
        hops = journey["hops"]
        assert {lane["id"] for lane in journey["lanes"]} == set(self.lanes)
        for lane, steps in self.lanes.items():
            found = hops_of(journey, lane)
            assert [_step_of(hop, step) for hop, step in zip(found, steps, strict=False)] == steps, lane
            assert len(found) == len(steps), (lane, found[len(steps) :])
            for hop, step in zip(found, steps, strict=True):
                self._check_time(hop, step)
        ranks = [(not hop["isKnown"], hop["time"] is None, hop["time"] or "") for hop in hops]
        assert ranks == sorted(ranks)
        told = [(hop["lane"], hop["kind"]) for hop in hops]
        assert sorted(self.order, key=told.index) == self.order
        assert journey["known"] == sum(step.when != UNKNOWN for steps in self.lanes.values() for step in steps)
        assert journey["unknown"] == sum(step.when == UNKNOWN for steps in self.lanes.values() for step in steps)
        assert (journey["hidden"]["hops"], journey["cutCopies"], journey["missing"]) == (0, 0, [])

    def _check_time(self, hop: dict[str, Any], step: Step) -> None:
        if step.during is None:
            return
        begun, ended = self.spans[step.during]
        assert begun - MARGIN_MS <= ms_of(hop) <= ended + MARGIN_MS, (hop, step, begun, ended)


def _step_of(hop: dict[str, Any], like: Step) -> Step:
    """A hop as a step, as far as the expected one says."""
    when = UNKNOWN if not hop["isKnown"] else UNTIMED if hop["time"] is None else TIMED
    outcome, topic = hop["outcome"], (hop["place"] or {}).get("topic")
    if like.outcome is not None and (outcome or "").startswith(like.outcome):
        outcome = like.outcome
    return Step(
        hop["kind"],
        hop["attempt"] if like.attempt is not None else None,
        outcome if like.outcome is not None else None,
        when,
        like.during,
        topic if like.topic is not None else None,
    )


def ms_of(hop: dict[str, Any]) -> float:
    return datetime.fromisoformat(hop["time"]).timestamp() * 1000


def hops_of(journey: dict[str, Any], lane: str) -> list[dict[str, Any]]:
    """The hops of a lane; those of one kind that came at once, such as copies into queues, by topic."""
    found = [hop for hop in journey["hops"] if hop["lane"] == lane]
    at_once = itertools.groupby(found, lambda hop: (hop["kind"], hop["time"], hop["isKnown"]))
    return [hop for _, same in at_once for hop in sorted(same, key=lambda hop: (hop["place"] or {}).get("topic", ""))]
