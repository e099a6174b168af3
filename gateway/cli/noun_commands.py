"""Commands of a noun, made of its operations: options from the fields of query and body, output from its words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
import typer
from msgspec import NODEFAULT, UNSET, Meta

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcome
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, below
from entrepot.gateway.operations.operation import PREFIX, Noun, Operation, Words
from entrepot.gateway.operations.reading import plain_of
from entrepot.gateway.operations.schema import hints_of
from entrepot.gateway.operations.shapes import Flag

_Parameter = inspect.Parameter
_BY_NAME: Final = _Parameter.KEYWORD_ONLY


def commands_of(noun: Noun) -> typer.Typer:
    """Return the commands of a noun, in the order of its operations."""
    app = typer.Typer(help=noun.about, no_args_is_help=True)
    for operation in noun.operations:
        if operation.words is not None:
            app.command(operation.words.command, help=operation.words.help)(_command(operation, operation.words))
    return app


class _Option:
    """A field of a query or a body as an option."""

    def __init__(self, field: msgspec.structs.FieldInfo, kind: Any, flag: Flag) -> None:
        self.name, self.encoded, self._read = field.name, field.encode_name, flag.read
        plain = plain_of(kind)
        taken: Any = plain if flag.read is None and plain in (int, bool) else str
        meta = next((each for each in get_args(kind)[1:] if isinstance(each, Meta)), Meta())
        limits: dict[str, Any] = {"min": meta.ge, "max": meta.le} if taken is int and meta.ge is not None else {}
        name = flag.name or "--" + self.name.replace("_", "-")
        if taken is bool and "/" not in name:
            name = f"{name}/--no-{name[2:]}"
        default = None if field.default in (NODEFAULT, UNSET, "") or taken is bool else field.default
        option = typer.Option(name, help=flag.help, metavar=flag.metavar, show_default=default is not None, **limits)
        annotation: Any = Annotated[taken if field.required else taken | None, option]
        default = _Parameter.empty if field.required else default
        self.parameter = _Parameter(self.name, _BY_NAME, default=default, annotation=annotation)

    def value(self, given: Any) -> Any:
        return given if self._read is None else self._read(given)


def _options(kind: type[msgspec.Struct] | None) -> list[_Option]:
    if kind is None:
        return []
    hints, found = hints_of(kind), []
    for each in msgspec.structs.fields(kind):
        metas = get_args(hints[each.name])[1:] if get_origin(hints[each.name]) is Annotated else ()
        found += [_Option(each, hints[each.name], meta) for meta in metas if isinstance(meta, Flag)]
    return found


def _command(operation: Operation, words: Words) -> Callable[..., None]:
    query, body = _options(operation.query), _options(operation.body)

    def command(**given: Any) -> None:
        named = {name: given[name] for name in operation.names}
        if words.confirm:
            confirm(words.confirm.format(**named), given["yes"])
        asked, told = ({o.encoded: o.value(given[o.name]) for o in each if given[o.name] is not None}
                       for each in (query, body))  # fmt: skip
        path = _path(operation, given.get("namespace", DEFAULT_NAMESPACE), named)
        sent = told if operation.body is not None else None
        answer = Client(given["server"]).request(operation.method, path, query=asked or None, body=sent)
        _print(operation, words, answer, named, as_json=given["as_json"])

    parameters = _parameters(operation, words, [*query, *body])
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameters(operation: Operation, words: Words, options: list[_Option]) -> list[inspect.Parameter]:
    arguments = [
        _argument(name, words.shown_as.get(name, _called(operation, name).upper())) for name in operation.names
    ]
    yes = _Parameter("yes", _BY_NAME, default=False, annotation=YesOption)
    namespace = _Parameter("namespace", _BY_NAME, default=DEFAULT_NAMESPACE, annotation=NamespaceOption)
    return [
        *arguments,
        *(each.parameter for each in options),
        *([yes] if words.confirm else []),
        *([namespace] if operation.is_in_namespaces else []),
        _Parameter("server", _BY_NAME, default=DEFAULT_SERVER, annotation=ServerOption),
        _Parameter("as_json", _BY_NAME, default=False, annotation=JsonOption),
    ]


def _argument(name: str, metavar: str) -> inspect.Parameter:
    annotation = Annotated[str, typer.Argument(metavar=metavar, show_default=False)]
    return _Parameter(name, _BY_NAME, annotation=annotation)


def _path(operation: Operation, namespace: str, names: dict[str, str]) -> str:
    path = operation.path.format(**{name: segment(value) for name, value in names.items()})
    return PREFIX + below(namespace) + path.removeprefix(PREFIX) if operation.is_in_namespaces else path


def _called(operation: Operation, name: str) -> str:
    """Return the word for a name of the path."""
    return operation.noun.one if name == "name" else name


def _print(operation: Operation, words: Words, answer: Any, named: dict[str, str], *, as_json: bool) -> None:
    if words.cells is not None:
        rows = answer["value"]
        told = answer if "answered" in answer or words.continued_by else rows
        cells = map(words.cells, rows)
        print_listing(told, words.columns, cells, as_json=as_json, continued_by=words.continued_by)
    elif words.show is not None and not as_json:
        words.show(answer)
    elif words.show is not None:
        print_json(answer)
    else:
        names = {words.keyed.get(name, _called(operation, name)): value for name, value in named.items()}
        value = {**names, words.done: True} if answer is None else answer
        print_outcome(value, words.outcome.format(**named), as_json=as_json)
