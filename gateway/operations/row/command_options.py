"""Fields of a query or a body as a command takes them: options and arguments.  Hints are made of them, too."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta

from entrepot.gateway.operations.row.option_texts import NONE, number_or_none
from entrepot.gateway.operations.row.reading import plain_of
from entrepot.gateway.operations.row.schema import hints_of
from entrepot.gateway.operations.row.shapes import MAX_NUMBER, Flag


class CommandOption:
    """A field as an option or an argument.  `name`, `encoded`: of the field, and in JSON.  `flag`: the option, perhaps
    with its opposite after a slash; an argument's metavar.  `takes`: the type of what is typed.  `forms`: the texts
    that stand for null and for objects, as `Flag` has them."""

    def __init__(self, field: msgspec.structs.FieldInfo, kind: Any, flag: Flag) -> None:
        self.name, self.encoded, self.required = field.name, field.encode_name, field.required
        self.help, self.sends, self.read = flag.help, flag.sends, flag.read
        self.is_many, self.metavar, self.forms = flag.is_many, flag.metavar, flag.forms
        plain = plain_of(kind)
        if plain is int and field.default is UNSET and NoneType in get_args(get_args(kind)[0]):
            self.read, self.metavar, self.forms = number_or_none, f"N|{NONE}", (NONE,)
        taken: Any = plain if self.read is None and plain in (int, bool, float) else str
        self.takes = list[str] if flag.is_many else bool if flag.sends is not None else taken
        self.flag = flag.name or "--" + self.name.replace("_", "-")
        self.is_argument = not self.flag.startswith("-")
        if plain is bool and not self.is_argument and "/" not in self.flag:
            self.flag += f"/--no-{self.flag[2:]}"
        is_unsaid = field.default in (NODEFAULT, UNSET, "") or self.takes is bool
        self.default = None if is_unsaid else field.default
        self.limits = _limits(kind) if self.takes in (int, float) else {}


def options_of(kind: type[msgspec.Struct] | None) -> Iterator[CommandOption]:
    """Yield the options of a query or a body: of the fields that have a `Flag`."""
    hints = {} if kind is None else hints_of(kind)
    for each in () if kind is None else msgspec.structs.fields(kind):
        metas = get_args(hints[each.name])[1:] if get_origin(hints[each.name]) is Annotated else ()
        for meta in metas:
            if isinstance(meta, Flag):
                yield CommandOption(each, hints[each.name], meta)


def _limits(kind: Any) -> dict[str, Any]:
    """Return the limits of a number, unless they are those of any."""
    for each in (kind, *get_args(get_args(kind)[0])):
        for meta in get_args(each)[1:]:
            if isinstance(meta, Meta) and meta.ge is not None and meta.le is not None and meta.le < MAX_NUMBER:
                return {"min": meta.ge, "max": meta.le}
    return {}
