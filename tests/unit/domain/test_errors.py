"""Errors that are raised again hold nothing together."""

from __future__ import annotations

import gc
import weakref

import pytest

from entrepot.domain.errors import Code, EntrepotError, raise_if


class Held:
    """Something of a frame."""


def refused() -> weakref.ref[Held]:
    held = Held()
    with pytest.raises(EntrepotError, match="no room") as caught:
        raise_if(EntrepotError(Code.STORAGE_FULL, "no room"))
    del caught
    return weakref.ref(held)


def test_nothing_is_raised_for_no_error() -> None:
    raise_if(None)


def test_a_frame_that_raised_one_goes_with_it() -> None:
    gc.disable()
    try:
        assert refused()() is None
    finally:
        gc.enable()


def test_who_keeps_one_that_was_raised_keeps_no_frames() -> None:
    kept: list[EntrepotError] = []

    def fails() -> weakref.ref[Held]:
        held = Held()
        try:
            raise_if(EntrepotError(Code.BAD_REQUEST, "bad"))
        except EntrepotError as error:
            kept.append(error.with_traceback(None))
        return weakref.ref(held)

    gc.disable()
    try:
        assert fails()() is None
    finally:
        gc.enable()
