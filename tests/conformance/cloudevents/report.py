"""The part of docs/conformance.md that is about CloudEvents."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.cloudevents.case import Case
from tests.conformance.cloudevents.cases import CASES
from tests.conformance.cloudevents.deliveries import DELIVERIES, DeliveryCase
from tests.conformance.cloudevents.differences import DEVIATIONS, UNBOUND
from tests.conformance.cloudevents.statements import STATEMENTS


def proofs() -> dict[str, list[Case | DeliveryCase]]:
    """The cases by the number of each statement they prove."""
    found: dict[str, list[Case | DeliveryCase]] = {}
    every: list[Case | DeliveryCase] = [*CASES, *DELIVERIES]
    for case in every:
        for number in case.proves:
            found.setdefault(number, []).append(case)
    return found


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield "\n## CloudEvents 1.0.2: core, HTTP binding, JSON format, webhooks\n"
    yield (
        f"{len(STATEMENTS)} statements; numbers are sections and a count within. The core has no numbers: 1 is its "
        "overview and terms, 2 names and types, 3 attributes, 4 size limits, 5 privacy. CORE 1.1-2, 1.1-4, 2-2 and 2-3 "
        "are of the draft of 1.0.3, which says plainly what 1.0.2 means. "
        f"{len(CASES)} cases are requests to a running server, and what is received of them; {len(DELIVERIES)} more, "
        "*sent*, are what a receiver of webhooks is sent (`tests/conformance/cloudevents`). `¹` marks what we do not "
        "keep to the letter; why stands below. CESQL has the suite of its specification: "
        "`tests/unit/expression/test_cesql_tck.py`; "
        "`tests/conformance/cloudevents/test_filters.py` takes it, and every clause of the language, through a server."
    )
    yield "\n| Statement | Binds | Says | Proof |\n|---|---|---|---|"
    played = proofs()
    for one in STATEMENTS:
        proof = [_escaped(case.name) for case in played.get(one.number, [])]
        proof += [f"`{test.partition('::')[2]}`" for test in one.tests]
        mark = "¹" if one.number in DEVIATIONS else ""
        yield f"| {one.number}{mark} | {one.binds.value} | {_escaped(one.text)} | {'; '.join(proof)} |"
    yield "\n### Not to the letter\n"
    for number, why in DEVIATIONS.items():
        yield f"- {number}: {_escaped(why)}"
    yield "\n### What binds others\n"
    yield "| Statement | Says | Not ours because |\n|---|---|---|"
    for other in UNBOUND:
        yield f"| {other.number} | {_escaped(other.text)} | {_escaped(other.why)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
