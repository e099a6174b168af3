"""Commands of a noun, made of its operations: options from the fields of query and body, output from its words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcome, print_table
from entrepot.gateway.cli.pages import all_pages, listing, print_page
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, below, read
from entrepot.gateway.operations.row.command_options import CommandOption, options_of
from entrepot.gateway.operations.row.operation import PREFIX, Noun, Operation, Words

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


def _value(option: CommandOption, given: Any) -> Any:
    if option.sends is not None:
        return option.sends
    return given if option.read is None else read(option.flag, option.read, given)


def _parameter(option: CommandOption, *, is_paged: bool) -> inspect.Parameter:
    """Return the parameter of a field.  `is_paged`: it has no default."""
    default: Any = None if is_paged else option.default
    told: Any
    if option.is_argument:
        told = typer.Argument(metavar=option.flag, help=option.help or None, show_default=False)
    else:
        is_told = default is not None
        told = typer.Option(
            option.flag, help=option.help, metavar=option.metavar, show_default=is_told, **option.limits
        )
    annotation: Any = Annotated[option.takes if option.required else option.takes | None, told]
    return _Parameter(
        option.name, _BY_NAME, default=_Parameter.empty if option.required else default, annotation=annotation
    )


def _command(operation: Operation, words: Words) -> Callable[..., None]:
    query, body = list(options_of(operation.query)), list(options_of(operation.body))

    def command(**given: Any) -> None:
        named = {name: given[name] for name in operation.names}
        if words.confirm:
            confirm(words.confirm.format(**given), given["yes"])
        asked, told = ({o.encoded: _value(o, given[o.name]) for o in each if given[o.name] is not None}
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


def _parameters(operation: Operation, words: Words, options: list[CommandOption]) -> list[inspect.Parameter]:
    arguments_first = sorted(options, key=lambda each: not each.is_argument)
    yes = _Parameter("yes", _BY_NAME, default=False, annotation=YesOption)
    namespace = _Parameter("namespace", _BY_NAME, default=DEFAULT_NAMESPACE, annotation=NamespaceOption)
    return [
        *(_argument(operation, words, name) for name in operation.names),
        *(_parameter(each, is_paged=words.is_paged) for each in arguments_first),
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
