"""Values of any type that goes over the wire, made by its annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from hypothesis import strategies as st

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.measurement import BOUNDS, Histogram
from entrepot.domain.position import Position
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.retry_policy import RetryPolicy
from entrepot.domain.topic import Cleanup, Permission, Topic, TopicType
from entrepot.protocols.wire.values import error_of

NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
POSITIVE = st.none() | st.integers(1, 1 << 40)
ERRORS = st.builds(error_of, st.sampled_from([int(code) for code in Code]), NAMES)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    made = Histogram()
    made.counts = draw(st.lists(st.integers(0, 1 << 60), min_size=len(BOUNDS) + 1, max_size=len(BOUNDS) + 1))
    made.total_seconds = draw(st.floats(0, 1e12))
    return made


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    queues = draw(st.integers(1, 1024))
    return Topic(
        draw(NAMES),
        queues,
        draw(st.sampled_from(TopicType)),
        draw(st.sampled_from(Permission)),
        draw(POSITIVE),
        draw(POSITIVE),
        draw(st.none() | st.integers(1, queues)),
        draw(st.sampled_from(Cleanup)),
        draw(POSITIVE),
        draw(POSITIVE),
        draw(st.floats(0, 1)),
        tuple(draw(st.dictionaries(NAMES, st.integers(1, 1024), max_size=4)).items()),
        draw(st.integers(0, (1 << 63) - 1)),
    )


GROUPS = st.builds(
    ConsumerGroup,
    name=NAMES,
    max_attempts=st.integers(1, 10_000),
    invisible_seconds=st.integers(1, 12 * 3600),
    start=st.sampled_from(["earliest", "latest", "2024-02-29T12:00:00+01:00"]),
    retry=st.builds(RetryPolicy),
    max_in_flight=POSITIVE,
    fifo=st.booleans(),
    filter=st.none() | st.just(FilterExpression(FilterKind.SQL92, "a > 1 AND b IS NULL")),
    revision=st.integers(0, (1 << 63) - 1),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    replicas = draw(st.integers(1, 9))
    within = st.integers(1, replicas)
    return Rule(draw(st.sampled_from(RuleKind)), replicas, draw(within), draw(within))


for kind, strategy in {
    Rule: rules(),
    EntrepotError: ERRORS,
    Histogram: histograms(),
    Topic: topics(),
    ConsumerGroup: GROUPS,
    Position: st.builds(Position, value=st.integers(0, (1 << 63) - 1)),
    int: NUMBERS,
    str: NAMES,
    float: st.floats(allow_nan=False),
}.items():
    st.register_type_strategy(kind, strategy)


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an operation's arguments or result."""
    return st.just(()) if annotation == tuple[()] else st.from_type(_read(annotation))


def _read(annotation: Any) -> Any:
    """The type as it is read: a sequence is a list then."""
    inner: Any = tuple(_read(each) for each in get_args(annotation))
    if get_origin(annotation) is Sequence:
        return list[inner]
    return tuple[inner] if get_origin(annotation) is tuple and inner else annotation


def plain(value: Any) -> Any:
    """A value in a form that can be compared: refusals, histograms and revisions are not, as they are."""
    if isinstance(value, EntrepotError):
        return type(value), value.code, value.message
    if isinstance(value, Histogram):
        return value.counts, value.total_seconds
    if isinstance(value, (Topic, ConsumerGroup)):
        return value, value.revision
    if isinstance(value, (list, tuple)):
        return type(value), [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return type(value), [plain(getattr(value, name)) for name in value.__dataclass_fields__]
    return value
