"""Rows: an operation of a port over the wire, made of the port's own method.

    ACKNOWLEDGE = row(21, Consumption.acknowledge, receipts=RECEIPTS)

Names, order, types and defaults of the arguments, and the type of the answer, are those of the method.  The row adds
the number, whether a request may be repeated, and the forms that differ on the wire.

`ACKNOWLEDGE.ask(topic, group, receipts)` is an `Ask`: a typed request as a value.  A client sends it, perhaps to
several brokers or once more; the server's end calls the method of that name.

Keyword-only arguments are positions on the wire: their order in the Protocol is frozen.  A new one goes to the end,
with a default, and into `added`.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast, get_type_hints

from entrepot.protocols.wire.authentication import Role
from entrepot.protocols.wire.operation import PARTS, Operation
from entrepot.protocols.wire.values import Codec, encode

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
ANSWER: Final = "answer"
"""The name of an answer among the forms."""


class Source(Protocol):
    """The broker or slave that answers.  Its number makes global ids of its own; a slave's answer may lag."""

    number: int
    may_lag: bool


@dataclass(frozen=True, slots=True)
class ArgumentForm:
    """The form of an argument on the wire: its type there, and the way there and back."""

    kind: Any
    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of an answer on the wire: its type there (None: bytes as they are), and the way there and back."""

    kind: Any
    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any, Source], Any]


class Row(Operation, Generic[P, R]):
    """One operation of a port.  `method`: the name of the port's.  `parameters`: the names of its arguments, in the
    order of the wire."""

    def __init__(
        self,
        number: int,
        method: Callable[..., Any],
        forms: Mapping[str, ArgumentForm | AnswerForm],
        *,
        again: bool,
        added: Iterable[str],
        kept: Iterable[str],
        callers: frozenset[Role],
        keys: Callable[[Any], Iterable[str]] | None,
        name: str,
    ) -> None:
        self.method = method.__name__
        hints = get_type_hints(method)
        listed = list(inspect.signature(method).parameters.values())[1:]
        sent = [each for each in listed if each.name not in kept]
        self.parameters = tuple(each.name for each in sent)
        self._positional = sum(each.kind is not each.KEYWORD_ONLY for each in sent)
        self._defaults = {each.name: each.default for each in listed if each.default is not each.empty}
        self._added = frozenset(added)
        arguments = {name: form for name, form in forms.items() if isinstance(form, ArgumentForm)}
        self._forms = [(self.parameters.index(name), form) for name, form in arguments.items()]
        answer = forms.get(ANSWER)
        self._answer = answer if isinstance(answer, AnswerForm) else None
        kinds = {name: arguments[name].kind if name in arguments else hints[name] for name in self.parameters}
        told = hints["return"] if self._answer is None else self._answer.kind
        self.ask: Callable[P, Ask[R]] = self._asking(listed)
        """Makes the request of a call: typed, and named, like the method."""
        super().__init__(
            number,
            name or self.method,
            Codec(self._arguments(kinds)),
            None if told is None else Codec(told),
            again,
            callers=callers,
            keys=keys,
        )

    def _arguments(self, kinds: Mapping[str, Any]) -> Any:
        """Return the type of all arguments on the wire; those that older peers do not send have their defaults."""
        if not self._added:
            return tuple[tuple(kinds.values())] if kinds else tuple[()]  # type: ignore[misc]
        defaults = [self._defaults[name] for name in kinds if name in self._added]
        made = namedtuple("Arguments", kinds, defaults=defaults)  # type: ignore[misc]
        made.__annotations__ = dict(kinds)
        return made

    def _asking(self, listed: Sequence[inspect.Parameter]) -> Callable[P, Ask[R]]:
        """Make `def ask(topic, group, receipts, *, may_wait=False): return Ask(row, (topic, group, receipts, ...))`."""
        head, tail = ", ".join(_written(listed)), "".join(f"{name}, " for name in self.parameters)
        made = _made(f"def ask({head}): return Ask(row, ({tail}))", Ask=Ask, row=self, defaults=self._defaults)
        return cast("Callable[P, Ask[R]]", made)

    def payload(self, arguments: Sequence[Any]) -> bytes:
        """Return the bytes of a request."""
        told = list(arguments)
        for at, form in self._forms:
            told[at] = form.to_wire(told[at])
        while self._added and told and self._is_left_out(len(told) - 1, told[-1]):
            told.pop()
        return encode(told)

    def _is_left_out(self, at: int, value: Any) -> bool:
        name = self.parameters[at]
        return name in self._added and bool(value == self._defaults[name])

    def read(self, payload: bytes, source: Source) -> R:
        """Return the answer in a payload.  Raises RemotingError."""
        told: Any = payload if self.result is None else self.result.decode(payload)
        answer: R = told if self._answer is None else self._answer.from_wire(told, source)
        return answer

    def served_by(self, method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return the call that answers requests: the method itself where arguments and answer are as on the wire."""
        call = self._called(method)
        if self._answer is None:
            return call
        to_wire = self._answer.to_wire

        async def answered(*arguments: Any) -> Any:
            return to_wire(await call(*arguments))

        return answered

    def _called(self, method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[..., Coroutine[Any, Any, R]]:
        """Return the method with the arguments of the wire: by their places, and made of their forms there."""
        forms = {self.parameters[at]: form.from_wire for at, form in self._forms if form.from_wire is not None}
        named = self.parameters[self._positional :]
        if not forms and not named:
            return method
        told = [f"forms[{name!r}]({name})" if name in forms else name for name in self.parameters]
        told[self._positional :] = [
            f"{name}={value}" for name, value in zip(named, told[self._positional :], strict=True)
        ]
        source = f"def call({', '.join(self.parameters)}): return method({', '.join(told)})"
        return cast("Callable[..., Coroutine[Any, Any, R]]", _made(source, method=method, forms=forms))


class Ask(Generic[R_co]):
    """One request: an operation with its arguments, in the order of the wire."""

    __slots__ = ("arguments", "row")

    def __init__(self, row: Row[..., R_co], arguments: tuple[Any, ...]) -> None:
        self.row, self.arguments = row, arguments

    def __getitem__(self, name: str) -> Any:
        return self.arguments[self.row.parameters.index(name)]

    def payload(self) -> bytes:
        """Return its bytes."""
        return self.row.payload(self.arguments)

    def with_(self, name: str, value: Any) -> Ask[R_co]:
        """Return the request with another argument."""
        at = self.row.parameters.index(name)
        return Ask(self.row, (*self.arguments[:at], value, *self.arguments[at + 1 :]))


def row(
    number: int,
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
    *,
    again: bool = False,
    added: Iterable[str] = (),
    kept: Iterable[str] = (),
    callers: frozenset[Role] = PARTS,
    keys: Callable[[Any], Iterable[str]] | None = None,
    name: str = "",
    **forms: ArgumentForm | AnswerForm,
) -> Row[P, R]:
    """Return the row of a port's method, whose number is fixed for ever.

    `again`: a request may be repeated.  `added`: arguments that older peers lack; one is left out at its default.
    `kept`: arguments that stay with the client.  `name`: that of the operation, where it is not the method's.
    `callers`, `keys`: as in `Operation`.  `forms`: of arguments by their name, and of the answer.
    """
    return Row(number, method, forms, again=again, added=added, kept=kept, callers=callers, keys=keys, name=name)


def _written(listed: Sequence[inspect.Parameter]) -> Iterator[str]:
    """Yield parameters as a `def` has them; their defaults are looked up by name."""
    is_named = False
    for each in listed:
        if each.kind is each.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        yield each.name if each.default is each.empty else f"{each.name}=defaults[{each.name!r}]"


def _made(source: str, **names: Any) -> Any:
    """Return a function of a text.  Keywords and tuples by hand cost 3 to 5 us a call."""
    exec(source, names)  # noqa: S102 - its only parts are a Protocol's own parameter names
    return names[source[len("def ") : source.index("(")]]
