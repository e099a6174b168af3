"""Messages of all kinds that a record can have, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from entrepot.domain.message import TIMES, Message

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
U64 = st.integers(0, 2**64 - 1)
VALUE = TEXT | st.binary(max_size=20)
MESSAGES = st.builds(
    Message,
    topic=WORD,
    body=st.binary(max_size=200),
    sub_topic=TEXT,
    queue_id=st.integers(0, 2**32 - 1),
    qos=st.integers(0, 2),
    tag=TEXT,
    keys=st.lists(WORD, max_size=3).map(tuple),
    message_group=TEXT,
    message_id=st.binary(max_size=64),
    born_time_ms=U64,
    filter_hash=U64,
    properties=st.lists(st.tuples(TEXT, VALUE), max_size=4).map(tuple),
    system=st.builds(
        lambda texts, times: {**texts, **times},
        st.dictionaries(TEXT, VALUE, max_size=4),
        st.dictionaries(st.sampled_from(sorted(TIMES)), st.integers(0, 10**18), max_size=2),
    ),
)
