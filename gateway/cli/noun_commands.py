"""Commands of a noun, made of its operations: options from the fields of query and body, output from its words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
import typer
from msgspec import NODEFAULT, UNSET, Meta

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcome, print_table
from entrepot.gateway.cli.pages import all_pages, listing, print_page
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, below, read
from entrepot.gateway.operations.row.operation import PREFIX, Noun, Operation, Words
from entrepot.gateway.operations.row.option_texts import NONE, number_or_none
from entrepot.gateway.operations.row.reading import plain_of
from entrepot.gateway.operations.row.schema import hints_of
from entrepot.gateway.operations.row.shapes import MAX_NUMBER, Flag

_Parameter = inspect.Parameter
_BY_NAME: Final = _Parameter.KEYWORD_ONLY


def commands_of(noun: Noun) -> typer.Typer:
    """Return the commands of a noun, in the order of its operations."""
    app = typer.Typer(help=noun.about, no_args_is_help=True)
    add_commands(app, noun, *(words.command for operation in noun.operations for words in operation.words))
    return app


def add_commands(app: typer.Typer, noun: Noun, *wanted: str) -> None:
    """Add some commands of a noun: between them there may be others that are written by hand."""
    made = {words.command: (operation, words) for operation in noun.operations for words in operation.words}
    for name in wanted:
        app.command(name, help=made[name][1].help)(_command(*made[name]))


def path_of(noun: Noun, operation: str, namespace: str = DEFAULT_NAMESPACE, **names: str) -> str:
    """Return the path of an operation by its id, for a command that is written by hand."""
    return _path(next(each for each in noun.operations if each.id == operation), namespace, names)


class _Option:
    """A field of a query or a body as an option or an argument.  `is_paged`: it has no default."""

    def __init__(self, field: msgspec.structs.FieldInfo, kind: Any, flag: Flag, *, is_paged: bool) -> None:
        self.name, self.encoded, self._sends, self._read = field.name, field.encode_name, flag.sends, flag.read
        plain, metavar = plain_of(kind), flag.metavar
        if plain is int and field.default is UNSET and NoneType in get_args(get_args(kind)[0]):
            self._read, metavar = number_or_none, f"N|{NONE}"
        taken: Any = plain if self._read is None and plain in (int, bool, float) else str
        taken = list[str] if flag.is_many else bool if flag.sends is not None else taken
        self.flag = flag.name or "--" + self.name.replace("_", "-")
        self.is_argument = not self.flag.startswith("-")
        default = None if field.default in (NODEFAULT, UNSET, "") or taken is bool or is_paged else field.default
        option: Any
        if self.is_argument:
            option = typer.Argument(metavar=flag.name, help=flag.help or None, show_default=False)
        else:
            names = f"{self.flag}/--no-{self.flag[2:]}" if plain is bool and "/" not in self.flag else self.flag
            limits = _limits(kind) if taken in (int, float) else {}
            told = default is not None
            option = typer.Option(names, help=flag.help, metavar=metavar, show_default=told, **limits)
        annotation: Any = Annotated[taken if field.required else taken | None, option]
        default = _Parameter.empty if field.required else default
        self.parameter = _Parameter(self.name, _BY_NAME, default=default, annotation=annotation)

    def value(self, given: Any) -> Any:
        if self._sends is not None:
            return self._sends
        return given if self._read is None else read(self.flag, self._read, given)


def _limits(kind: Any) -> dict[str, Any]:
    """Return the limits of a number, unless they are those of any."""
    for each in (kind, *get_args(get_args(kind)[0])):
        for meta in get_args(each)[1:]:
            if isinstance(meta, Meta) and meta.ge is not None and meta.le is not None and meta.le < MAX_NUMBER:
                return {"min": meta.ge, "max": meta.le}
    return {}


def _options(kind: type[msgspec.Struct] | None, *, is_paged: bool = False) -> Iterator[_Option]:
    hints = {} if kind is None else hints_of(kind)
    for each in () if kind is None else msgspec.structs.fields(kind):
        metas = get_args(hints[each.name])[1:] if get_origin(hints[each.name]) is Annotated else ()
        for meta in metas:
            if isinstance(meta, Flag):
                yield _Option(each, hints[each.name], meta, is_paged=is_paged)


def _command(operation: Operation, words: Words) -> Callable[..., None]:
    query, body = list(_options(operation.query, is_paged=words.is_paged)), list(_options(operation.body))

    def command(**given: Any) -> None:
        named = {name: given[name] for name in operation.names}
        if words.confirm:
            confirm(words.confirm.format(**given), given["yes"])
        asked, told = ({o.encoded: o.value(given[o.name]) for o in each if given[o.name] is not None}
                       for each in (query, body))  # fmt: skip
        client, path = Client(given["server"]), _path(operation, given.get("namespace", DEFAULT_NAMESPACE), named)
        if words.must_exist:
            client.get(path)  # a missing one is refused
        if words.is_paged:
            answer: Any = listing(client, path, asked)
        elif words.whole:
            answer = {"value": all_pages(client, path, words.whole, **asked)}
        else:
            sent = told if operation.body is not None else None
            answer = client.request(operation.method, path, query=asked or None, body=sent)
        _print(operation, words, answer, named, as_json=given["as_json"])

    parameters = _parameters(operation, words, [*body, *query])
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameters(operation: Operation, words: Words, options: list[_Option]) -> list[inspect.Parameter]:
    yes = _Parameter("yes", _BY_NAME, default=False, annotation=YesOption)
    namespace = _Parameter("namespace", _BY_NAME, default=DEFAULT_NAMESPACE, annotation=NamespaceOption)
    return [
        *(_argument(operation, words, name) for name in operation.names),
        *(each.parameter for each in options if each.is_argument),
        *(each.parameter for each in options if not each.is_argument),
        *([yes] if words.confirm else []),
        *([namespace] if operation.is_in_namespaces else []),
        _Parameter("server", _BY_NAME, default=DEFAULT_SERVER, annotation=ServerOption),
        _Parameter("as_json", _BY_NAME, default=False, annotation=JsonOption),
    ]


def _argument(operation: Operation, words: Words, name: str) -> inspect.Parameter:
    metavar = words.shown_as.get(name, _called(operation, name).upper())
    argument = typer.Argument(metavar=metavar, help=operation.noun.helps.get(name), show_default=False)
    return _Parameter(name, _BY_NAME, annotation=Annotated[str, argument])


def _path(operation: Operation, namespace: str, names: dict[str, str]) -> str:
    path = operation.path.format(**{name: segment(value) for name, value in names.items()})
    return PREFIX + below(namespace) + path.removeprefix(PREFIX) if operation.is_in_namespaces else path


def _called(operation: Operation, name: str) -> str:
    """Return the word for a name of the path."""
    return operation.noun.one if name == "name" else name


def _print(operation: Operation, words: Words, answer: Any, named: dict[str, str], *, as_json: bool) -> None:
    if words.columns:
        _print_list(words, answer, as_json=as_json)
    elif words.tables is not None and not as_json:
        for columns, rows in words.tables(answer):
            print_table(columns, rows)
    elif words.outcome:
        names = {words.keyed.get(name, _called(operation, name)): value for name, value in named.items()}
        value = {**names, words.done: True} if answer is None else answer
        print_outcome(value, words.outcome.format(**named, answer=answer), as_json=as_json)
    else:
        print_json(answer["value"] if words.whole else answer)


def _print_list(words: Words, answer: Any, *, as_json: bool) -> None:
    rows, members = answer["value"], words.cells or words.columns
    cells = map(members, rows) if callable(members) else ([row[name] for name in members] for row in rows)
    if words.is_paged:
        print_page(answer, words.columns, cells, as_json=as_json)
    else:
        told = answer if "answered" in answer or words.continued_by else rows
        print_listing(told, words.columns, cells, as_json=as_json, continued_by=words.continued_by)
