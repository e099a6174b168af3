"""Texts that people write into files, as their editors save them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.written_text import WrittenTextError, without_mark, written_text


@given(st.text())
def test_utf_8_with_and_without_a_mark(text: str) -> None:
    if "\0" in text[:4]:
        return
    assert written_text(text.encode("utf-8-sig")) == text
    if not text.startswith("\ufeff"):
        assert written_text(text.encode()) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["{", "[mqtt]\n", '{"ü": 1}'])
def test_wide_text_is_called_by_its_name(encoding: str, text: str) -> None:
    for mark in ("", "\ufeff"):
        with pytest.raises(WrittenTextError, match=r"^it is UTF-16 or UTF-32 text: save it as UTF-8$"):
            written_text((mark + text).encode(encoding))


def test_other_encodings_are_told_with_their_line() -> None:
    for data, line in ((b"\xfc", 1), (b"a\nb\n\xfc\n\xfc", 3), (b"\xef\xbb\xbfa\n\xe9", 2)):
        with pytest.raises(WrittenTextError, match=rf"^it is not UTF-8 text \(line {line}\)"):
            written_text(data)


def test_one_mark_goes_and_no_more() -> None:
    assert written_text("\ufeff\ufeffa".encode()) == "\ufeffa"
    assert without_mark("\ufeff\ufeffa".encode()) == "\ufeffa".encode()
    assert without_mark(b"a\xef\xbb\xbf") == b"a\xef\xbb\xbf"
    assert written_text(b"\xef\xbb\xbf") == ""
