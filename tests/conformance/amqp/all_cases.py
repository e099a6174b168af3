"""Every case, by its name."""

from __future__ import annotations

from tests.conformance.amqp import cases_connection, cases_entities, cases_messages
from tests.conformance.amqp.register import CASES

__all__ = ["CASES", "cases_connection", "cases_entities", "cases_messages"]
