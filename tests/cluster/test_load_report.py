"""The suite is worth nothing unless its own report finds what is wrong: planted faults."""

from __future__ import annotations

import time

from tests.support.doors.load import INVISIBLE_SECONDS, Promises


def kept() -> Promises:
    """Two messages; one of them delivered and acknowledged, as it should be."""
    promises = Promises(sent={"a", "b"}, confirmed={"a"})
    promises.deliver("a", "id-a", time.monotonic())
    promises.acknowledge(["id-a"])
    return promises


def test_nothing_wrong_is_clean() -> None:
    promises = kept()
    promises.deliver("b", "id-b", time.monotonic() - INVISIBLE_SECONDS)
    promises.deliver("b", "id-b", time.monotonic())  # nobody had acknowledged it in time
    assert promises.report().is_clean


def test_a_confirmed_message_that_never_comes_is_lost() -> None:
    promises = kept()
    promises.confirmed.add("b")
    assert promises.report().lost == ["b: confirmed and never delivered"]


def test_what_nobody_sent_is_a_phantom() -> None:
    promises = kept()
    promises.deliver("c", "id-c", time.monotonic())
    assert len(promises.report().unexpected) == 1


def test_duplicates_that_are_not_allowed_are_told_of() -> None:
    promises = kept()
    promises.deliver("a", "id-a", time.monotonic() + INVISIBLE_SECONDS)
    assert [text for text in promises.report().duplicated if "acknowledged" in text]

    promises = kept()
    promises.deliver("a", "another", time.monotonic())
    assert [text for text in promises.report().duplicated if "stored as" in text]

    promises = kept()
    for _ in range(2):
        promises.deliver("b", "id-b", time.monotonic())
    assert [text for text in promises.report().duplicated if "another consumer had it" in text]
