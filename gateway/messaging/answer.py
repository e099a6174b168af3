"""Answer: a callback that can be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from entrepot.domain.errors import EntrepotError

_T = TypeVar("_T")


class Answer(Generic[_T]):
    """A callback for (failure or None, result), called once. Awaiting it returns the result or raises the failure."""

    def __init__(self) -> None:
        self._told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __call__(self, failure: EntrepotError | None, result: _T | None = None) -> None:
        if self._told.done():
            return  # the caller no longer waits
        if failure is not None:
            self._told.set_exception(failure)
        else:
            self._told.set_result(result)

    def __await__(self) -> Generator[Any, None, _T]:
        return self._told.__await__()
