"""RegularExpression: a user's pattern, matched against names.

RE2 runs it, in time that grows with the length of the name only.  The syntax is that of Python's `re`, and names are
Unicode.  Look-around, backreferences, atomic groups and possessive repetitions are refused, since RE2 lacks them.  One
form is accepted, for policies of RabbitMQ: `^(?!amq\\.).*`, a negative look-ahead right after `^`.  It is split: the
rest must match, and the excluded text must not begin the name.

Differences from `re`: `$` is only the end, `\\b` knows ASCII words only, a repetition counts to 1000.

Only this module compiles users' patterns.  Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import re2

from entrepot.domain.errors import Code, EntrepotError

MAX_PATTERN_LENGTH: Final = 1024
MAX_STATES: Final = 1200
"""Limit of states of a pattern with its repetitions written out, a character set counting as one.  It bounds match
time."""
MAX_COMPILED_BYTES: Final = 2 * 1024 * 1024
"""Limit of one compiled part with its cached states, in bytes."""

_SPACE: Final = r"\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NO_SPACE: Final = (
    r"\x00-\x08\x0e-\x1b\x21-\x84\x86-\x9f\xa1-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_WORD: Final = r"\p{L}\p{N}_"
_ESCAPES: Final = {
    **{letter: "\\" + letter for letter in "AabBfnrtvz"},
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "Z": r"\z",
}
_IN_CLASS: Final = {
    **{letter: "\\" + letter for letter in "afnrtv"},
    "b": r"\x08",
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": _SPACE,
    "S": _NO_SPACE,
    "w": _WORD,
}
_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
_ESCAPED: Final = (
    r"\\(?:x[0-9a-fA-F]{2}|x\{[0-9a-fA-F]{1,6}\}|[pP](?:[A-Z]|\{\^?\w{1,40}\})|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"
    r"|0[0-7]{0,2}|.|$)"
)
_TOKEN: Final = re.compile(
    _ESCAPED + r"|\(\?(?:P?<\w+>|[ims]*-?[ims]*:|<[=!]|P[=>]|.)|\{,[0-9]*\}|\[\^?\]?|.", re.DOTALL
)
_CLASS_TOKEN: Final = re.compile(_ESCAPED + r"|\[:\^?[a-z]+:\]|.", re.DOTALL)
_CODE: Final = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4,8})|0([0-7]{0,2}))")
_GROUP: Final = re.compile(r"\(\?(?:P?<\w+>|[ims]*-?[ims]*:)")
_NOT_HERE: Final = {
    "(?=": "a look-ahead",
    "(?!": "a negative look-ahead elsewhere than behind the first ^",
    "(?<=": "a look-behind",
    "(?<!": "a negative look-behind",
    "(?P=": "a reference back",
    "(?P>": "a call of a group",
    "(?>": "an atomic group",
    "(?(": "a condition",
    "(?#": "a comment",
}
_INSTEAD: Final = {
    "(?=": "match what follows, as in ^app-(in|out)$ for ^app-(?=in|out)",
    "(?!": "write ^(?!x) with the excluded beginnings, or only what is wanted",
    "(?<=": "match what is before, as in ^app-.*$ for (?<=^app-).*",
    "(?<!": "write ^(?!x) with the excluded beginnings, or only what is wanted",
    "(?P=": "write the group once more",
    "(?P>": "write the group once more",
    "(?>": "write (?:...)",
    "(?(": "write both cases, with | between",
    "(?#": "leave it out",
}
"""The form to write for each that RE2 lacks."""
_REPEATED_TWICE: Final = "bad repetition operator"
"""RE2's word for a possessive repetition, such as `a*+`."""


class _Token(NamedTuple):
    """A piece of a pattern: its place, its text, its form for RE2, and the number of open groups around it."""

    position: int
    written: str
    text: str
    depth: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One alternative.  `excluded`: beginnings that the name may not have."""

    wanted: re2._Regexp
    excluded: re2._Regexp | None


class RegularExpression:
    """A compiled pattern.  `matches_whole`: it must match the whole name; else it is searched anywhere.  Raises
    BAD_REQUEST with the place of an unusable part."""

    __slots__ = ("_matches_whole", "_parts", "text")

    def __init__(self, text: str, *, matches_whole: bool = False) -> None:
        if len(text) > MAX_PATTERN_LENGTH:
            raise EntrepotError(Code.BAD_REQUEST, f"a pattern has up to {MAX_PATTERN_LENGTH} characters")
        self.text = text
        self._matches_whole = matches_whole
        self._parts = _Reading(text).parts()

    def __repr__(self) -> str:
        return f"RegularExpression({self.text!r})"

    def matches(self, name: str) -> bool:
        data = name.encode("utf-8", "replace")
        for part in self._parts:
            found = part.wanted.fullmatch(data) if self._matches_whole else part.wanted.search(data)
            if found is not None and (part.excluded is None or part.excluded.search(data) is None):
                return True
        return False


class _Reading:
    """A reader of one pattern, which translates it for RE2."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self._refusal("it is not Unicode", error.start) from None
        flags = _FLAGS.match(text)
        self._flags = flags[0] if flags else ""
        self._tokens = self._read(len(self._flags))

    def parts(self) -> tuple[_Part, ...]:
        """Return the alternatives: those with exclusions one by one, the others together."""
        self._check_size()
        plain: list[list[_Token]] = []
        found: list[_Part] = []
        for alternative in self._alternatives():
            excluded, rest = self._excluded(alternative)
            if excluded is None:
                plain.append(alternative)
            else:
                wanted = self._compiled(f"^(?:{self._joined(rest)})")
                found.append(_Part(wanted, self._compiled(f"^(?:{excluded})")))
        if plain:
            found.append(_Part(self._compiled("|".join(map(self._joined, plain))), None))
        return tuple(found)

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _read(self, position: int) -> list[_Token]:
        tokens: list[_Token] = []
        opened: list[int] = []
        while position < len(self._text):
            written = _TOKEN.match(self._text, position)[0]  # type: ignore[index]  # it takes any character
            if written[0] == "[":
                written, text = self._class(written, position)
            else:
                text = self._outside(written, position)
            if written == ")":
                if not opened:
                    raise self._refusal("unbalanced parenthesis", position)
                opened.pop()
            tokens.append(_Token(position, written, text, len(opened)))
            if written[0] == "(":
                opened.append(position)
            position += len(written)
        if opened:
            raise self._refusal("missing ), unterminated group", opened[-1])
        return tokens

    def _outside(self, written: str, position: int) -> str:
        if written[0] == "\\":
            return self._escape(written, position, _ESCAPES)
        if written.startswith("{,"):
            return "*" if written == "{,}" else "{0" + written[1:]
        if written.startswith("(?") and written != "(?!" and not _GROUP.fullmatch(written):
            what = "a flag other than i, m and s, or behind the beginning," if written[2] in "aimsxuLU-" else "this"
            raise self._refusal(f"{_NOT_HERE.get(written, what)} cannot be used here", position, _INSTEAD.get(written))
        return written

    def _class(self, begin: str, position: int) -> tuple[str, str]:
        """Return a character set with this start: as written, and in RE2's form."""
        at, text = position + len(begin), begin
        while at < len(self._text):
            written = _CLASS_TOKEN.match(self._text, at)[0]  # type: ignore[index]  # it takes any character
            text += self._escape(written, at, _IN_CLASS) if written[0] == "\\" else written
            at += len(written)
            if written == "]":
                return self._text[position:at], text
        raise self._refusal("unterminated character set", position)

    def _escape(self, written: str, position: int, known: dict[str, str]) -> str:
        code = _CODE.fullmatch(written)
        if code is not None:
            value = int(code[1], 16) if code[1] else int(code[2] or "0", 8)
            return f"\\x{{{value:x}}}"
        letter = written[1:]
        if len(letter) > 1:  # a code, or a category
            return written
        if not letter:
            raise self._refusal("bad escape (end of pattern)", position)
        if letter in known:
            return known[letter]
        if letter.isascii() and letter.isdecimal():
            raise self._refusal("a reference back cannot be used here", position, _INSTEAD["(?P="])
        if letter.isascii() and letter.isalpha():
            where = " in a character set" if letter in _ESCAPES else ""
            raise self._refusal(f"the escape \\{letter} cannot be used here{where}", position)
        return written if letter.isascii() and letter != "_" else letter

    # -- alternatives ------------------------------------------------------------------------------------------------

    def _alternatives(self) -> list[list[_Token]]:
        found: list[list[_Token]] = [[]]
        for token in self._tokens:
            if token.depth == 0 and token.written == "|":
                found.append([])
            else:
                found[-1].append(token)
        return found

    def _excluded(self, tokens: list[_Token]) -> tuple[str | None, list[_Token]]:
        """Return the pattern of the negative look-aheads after the start, and the rest."""
        if "m" in self._flags or not tokens or tokens[0].written not in ("^", r"\A"):
            return None, tokens
        excluded: list[str] = []
        at = 1
        while at < len(tokens) and tokens[at].written == "(?!":
            end = next(i for i in range(at + 1, len(tokens)) if tokens[i].depth == 0 and tokens[i].written == ")")
            excluded.append(f"(?:{self._joined(tokens[at + 1 : end])})")
            at = end + 1
        return "|".join(excluded) or None, tokens[at:]

    def _joined(self, tokens: list[_Token]) -> str:
        for token in tokens:
            if token.written == "(?!":
                problem = _NOT_HERE[token.written] + " cannot be used here"
                raise self._refusal(problem, token.position, _INSTEAD[token.written])
        return "".join(token.text for token in tokens)

    def _check_size(self) -> None:
        sketch = "".join("(?:" if each.written == "(?!" else _sketch(each) for each in self._tokens)
        if self._compiled(sketch).programsize > MAX_STATES:
            raise self._refusal(f"it has more than {MAX_STATES} states when its repetitions are written out", None)

    # -- RE2 ---------------------------------------------------------------------------------------------------------

    def _compiled(self, text: str) -> re2._Regexp:
        options = re2.Options()
        options.max_mem = MAX_COMPILED_BYTES
        options.log_errors = False  # else it writes to standard error
        options.never_capture = True
        try:
            compiled = re2.compile(self._flags + text, options)
            re2.purge()  # its own cache is not needed
            return compiled
        except re2.error as error:
            said = error.args[0]
            problem = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            fragment = problem.rpartition(": ")[2]
            once = self._text.count(fragment) == 1
            instead = "repeat it once" if _REPEATED_TWICE in problem else None
            raise self._refusal(problem, self._text.index(fragment) if once else None, instead) from None

    def _refusal(self, problem: str, position: int | None, instead: str | None = None) -> EntrepotError:
        place = "" if position is None else f" at position {position}"
        advice = "" if instead is None else f"; {instead}"
        return EntrepotError(Code.BAD_REQUEST, f"{self._text!r} is not a regular expression: {problem}{place}{advice}")


def _sketch(token: _Token) -> str:
    """A token, with one character in place of a set of them."""
    is_set = token.written[0] in "[." or not token.written.isascii()
    is_escape = token.written[0] == "\\" and token.written[1] not in "ABZbz"
    return "x" if is_set or is_escape else token.text
