"""Refusals that exist in HTTP only: a problem (RFC 9457) of their own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from entrepot.domain.errors import Code, EntrepotError


class Form(Enum):
    """Form of the problems of a noun: its name in the document."""

    PLAIN = "Problem"
    RABBITMQ = "RabbitMqProblem"
    """With `error` and `reason`, and RabbitMQ's statuses."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The fixed part of a problem detail (RFC 9457 section 3.1).  `slug` is the last segment of the problem's `type`
    URI; `detail` is the error's own sentence."""

    status: int
    slug: str
    title: str


class HttpRefusalError(EntrepotError):
    """A refusal that exists in HTTP only."""

    def __init__(self, code: Code, problem: Problem, message: str) -> None:
        super().__init__(code, message)
        self.problem = problem


class MissingError(HttpRefusalError):
    """Something missing for which the store has no code: answered with 404."""

    def __init__(self, slug: str, title: str, message: str) -> None:
        super().__init__(Code.BAD_REQUEST, Problem(HTTPStatus.NOT_FOUND, slug, title), message)


def bad_request(message: str) -> EntrepotError:
    """Return a BAD_REQUEST error."""
    return EntrepotError(Code.BAD_REQUEST, message)
