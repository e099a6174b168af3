"""Schemas of shapes, as the document tells them."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from entrepot.gateway.operations.schema import Schemas


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Literal["all", "some"], {"type": "string", "enum": ["all", "some"]}),
        (Literal["*"], {"type": "string", "const": "*"}),
        (Literal["*"] | None, {"anyOf": [{"type": "string", "const": "*"}, {"type": "null"}]}),
    ],
)
def test_texts_that_are_told_in_advance(kind: Any, schema: dict[str, Any]) -> None:
    assert Schemas().of(kind) == schema
