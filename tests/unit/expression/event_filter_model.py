"""Random filters, as JSON, and random events for them: values few enough to meet, typed ones among them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NAMES = ["type", "source", "subject", "ext", "n"]
TEXTS = ["a", "b", "ab", "abc", "aba", "com.a", "com.ab", "true", "TRUE", "1", "01", "5", "-5", "it's", "\\"]
SQL_TEXTS = [text for text in TEXTS if text != "\\"] + [""]

names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
events = st.fixed_dictionaries(
    {"type": texts, "source": texts},
    optional={
        name: st.sampled_from([*TEXTS, ""]) | st.booleans() | st.sampled_from([0, 1, 5, -5]) for name in NAMES[2:]
    },
)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


constants = st.one_of(
    st.sampled_from(SQL_TEXTS).map(_quoted), st.sampled_from(["TRUE", "FALSE", "0", "1", "5", "-5"]), names
)
patterns = st.lists(st.sampled_from(["%", "_", "a", "ab", "com.", "\\%", "1"]), max_size=4).map("".join).map(_quoted)
simple_sql = st.one_of(
    names,
    st.builds("{} {} {}".format, constants, st.sampled_from(["=", "=", "=", "!=", "<>", "<"]), constants),
    st.builds("{} {} {}".format, names, st.sampled_from(["LIKE", "LIKE", "NOT LIKE"]), patterns),
    st.builds(
        lambda name, word, members: f"{name} {word} ({', '.join(members)})",
        names,
        st.sampled_from(["IN", "IN", "NOT IN"]),
        st.lists(constants, min_size=1, max_size=3),
    ),
    st.builds("EXISTS {}".format, names),
    st.builds("LEFT({}, 2) = 'ab'".format, names),
    st.builds("CONCAT({}, {}) LIKE 'a%'".format, names, names),
    st.builds("-{} = -5".format, names),
)
sql = st.recursive(
    simple_sql,
    lambda part: st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(["AND", "AND", "OR", "XOR"]), part),
        st.builds("{} {} {} {} {}".format, part, st.sampled_from(["AND", "OR"]), part, st.sampled_from(["AND"]), part),
        st.builds("NOT ({})".format, part),
    ),
    max_leaves=4,
)

compared = st.dictionaries(names, texts, min_size=1, max_size=3)
filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.one_of(
        *(
            st.builds(lambda content, dialect=dialect: {dialect: content}, compared)
            for dialect in ("exact", "prefix", "suffix")
        ),
        sql.map(lambda text: {"sql": text}),
    ),
    lambda part: st.one_of(
        st.lists(part, min_size=1, max_size=3).map(lambda parts: {"all": parts}),
        st.lists(part, min_size=1, max_size=3).map(lambda parts: {"any": parts}),
        part.map(lambda inner: {"not": inner}),
    ),
    max_leaves=4,
)
filter_lists = st.lists(filters, max_size=3)


def wants(document: dict[str, Any], event: dict[str, Any], sql_matches: Any) -> bool:
    """Whether an event passes a filter, by the sentences of the draft; `sql_matches` decides on expressions."""
    ((dialect, content),) = document.items()
    if dialect == "sql":
        return sql_matches(content, event)
    if dialect == "all":
        return all(wants(each, event, sql_matches) for each in content)
    if dialect == "any":
        return any(wants(each, event, sql_matches) for each in content)
    if dialect == "not":
        return not wants(content, event, sql_matches)
    strings = {name: value if isinstance(value, str) else str(value).lower() for name, value in event.items()}
    tests: dict[str, Callable[[str, str], bool]] = {
        "exact": operator.eq,
        "prefix": str.startswith,
        "suffix": str.endswith,
    }
    return all(name in strings and tests[dialect](strings[name], text) for name, text in content.items())
