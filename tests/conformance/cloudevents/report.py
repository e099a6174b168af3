"""The part of docs/conformance.md that is about CloudEvents."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.cloudevents.case import Case
from tests.conformance.cloudevents.cases import CASES
from tests.conformance.cloudevents.statements import STATEMENTS


def proofs() -> dict[str, list[Case]]:
    """The cases by the number of each statement they prove."""
    found: dict[str, list[Case]] = {}
    for case in CASES:
        for number in case.proves:
            found.setdefault(number, []).append(case)
    return found


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield "\n## CloudEvents 1.0.2: core, HTTP binding, JSON format, webhooks\n"
    yield (
        f"{len(STATEMENTS)} statements; numbers are sections and a count within. {len(CASES)} cases are requests to a "
        "running server, and what is received of them (`tests/conformance/cloudevents`). CESQL has the suite of its "
        "specification: `tests/unit/expression/test_cesql_tck.py`."
    )
    yield "\n| Statement | Binds | Says | Proof |\n|---|---|---|---|"
    played = proofs()
    for one in STATEMENTS:
        proof = [_escaped(case.name) for case in played.get(one.number, [])]
        proof += [f"`{test.partition('::')[2]}`" for test in one.tests]
        yield f"| {one.number} | {one.binds.value} | {_escaped(one.text)} | {'; '.join(proof)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
