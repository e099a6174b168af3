"""Values at the edges of what a protocol can say."""

from __future__ import annotations

import pytest

from entrepot.domain.message import Message
from entrepot.domain.value_space import Number, Octets, Rule, Text, Unsaid, Whole, read_text

MESSAGE = Message("t", b"", "t")


class Told(list[Unsaid]):
    """Keeps what could not be said."""

    def __call__(self, message: Message, unsaid: Unsaid) -> None:
        assert message is MESSAGE
        self.append(unsaid)


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
@pytest.mark.parametrize("most", [7, 8, 9, 1000])
def test_a_text_is_measured_in_bytes(character: str, most: int) -> None:
    size = len(character.encode())
    shortened, left_out = Text("p", "name", most, Rule.SHORTENED), Text("p", "name", most, Rule.LEFT_OUT)
    for count in range(most // size + 3):
        text, told = character * count, Told()
        fits = count * size <= most
        assert shortened.has(text) is fits
        assert shortened.said(text, MESSAGE, told) == character * min(count, most // size)
        assert left_out.said(text, MESSAGE, told) == (text if fits else None)
        expected = [Unsaid("p", "name", rule) for rule in (Rule.SHORTENED, Rule.LEFT_OUT)]
        assert told == ([] if fits else expected)


def test_a_text_has_characters_it_may_not_have_and_a_number_of_them() -> None:
    space = Text("p", "name", 100, Rule.SHORTENED, forbidden="\0+", max_characters=3)
    told = Told()
    assert space.said("a+b\0", MESSAGE, told, "x") == "a\ufffdb"
    assert told == [Unsaid("p", "name", Rule.SHORTENED, "x")]
    assert (space.has("abc"), space.has("abcd"), space.has("a+"), space.has("\0")) == (True, False, False, False)


@pytest.mark.parametrize(("value", "said"), [(-3, -2), (-2, -2), (0, 0), (9, 9), (10, 9)])
def test_a_number_becomes_the_nearest_one(value: int, said: int) -> None:
    told = Told()
    assert Number("p", "priority", -2, 9).said(value, MESSAGE, told) == said
    assert bool(told) is (value != said)


def test_bytes_fit_or_are_left_out() -> None:
    told = Told()
    space = Octets("p", "correlation", 4)
    assert (space.said(b"1234", MESSAGE, told), told) == (b"1234", [])
    assert space.said(b"12345", MESSAGE, told) is None
    assert told == [Unsaid("p", "correlation", Rule.LEFT_OUT)]


def test_bytes_that_are_no_text_are_replaced() -> None:
    told = Told()
    space = Whole("p", "properties", 100)
    assert [read_text(each, space, MESSAGE, told) for each in ("é", "é".encode())] == ["é", "é"]
    assert not told
    assert read_text(b"a\xff", space, MESSAGE, told, "n") == "a\ufffd"
    assert told == [Unsaid("p", "properties", Rule.REPLACED, "n")]
