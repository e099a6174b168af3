"""BrokerAnswers: statuses of many topics or groups, as far as the brokers told them in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Status = TypeVar("Status")


@dataclass(frozen=True, slots=True)
class BrokerAnswers(Generic[Status]):
    """The answers to one question.

    `statuses`: by name; a name that is gone, or that nobody told of, is missing.  `partial`: names of which a broker's
    part is missing, so that sums over their queues are lower bounds.  `asked`: number of brokers asked.  `missing`: the
    reason, in words, by the name of each broker without an answer.
    """

    statuses: Mapping[str, Status]
    partial: frozenset[str]
    asked: int
    missing: Mapping[str, str] = field(default_factory=dict)
