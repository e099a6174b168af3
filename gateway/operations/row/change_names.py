"""Names of administrative changes in the audit log, from the templates of their routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMESPACE_PATH: Final = "/namespaces/{namespace}"
"""Where paths of a namespace are, below their prefix."""
NO_CHANGE: Final = ""
"""Declaration of a route that changes nothing for an operator: publishing, consuming, a member's own progress."""
TOLD_BELOW: Final = ""
"""Declaration of a change that `security.administration` audits itself, with its details."""
CHANGED: Final = " changed"
CREATED: Final = " created"
"""Ends of events; the status tells which."""
_PREFIXES: Final = ("/api/v1/", "/api/", "/")
_BY_METHOD: Final = {"PUT": CHANGED, "DELETE": " deleted", "POST": CREATED}
_PAST: Final = {"resend": "resent", "elect": "elected", "restore": "restored", "attach": "attached"}
"""Past participles of verbs in templates; others stay as they are."""
_DEFAULT_VHOST: Final = "/"


def change_of(method: str, template: str) -> str:
    """The event of a route that declares none; NO_CHANGE for a reading method."""
    ending = _BY_METHOD.get(method)
    if ending is None:
        return NO_CHANGE
    verb = template.rpartition("/")[2].partition(":")[2]
    return _nouns(template)[-1] + (f" {_PAST.get(verb, verb)}" if verb else ending)


def resource_of(template: str, names: Mapping[str, str]) -> str:
    """The resource in a path: the first noun of its template and the names, with their namespace or virtual host."""
    given = dict(names)
    if given.get("vhost") == _DEFAULT_VHOST:
        del given["vhost"]
    wanted = [part[1:].partition("}")[0] for part in template.split("/") if part.startswith("{")]
    named = "/".join(given[name] for name in wanted if name in given)
    return f"{_nouns(template)[0]} {named}".rstrip()


def _nouns(template: str) -> list[str]:
    """The fixed segments of a template, in the singular, without its prefix and verb."""
    path = template.replace(NAMESPACE_PATH, "")
    plain = next(path.removeprefix(each) for each in _PREFIXES if path.startswith(each))
    return [_singular(part.partition(":")[0]) for part in plain.split("/") if not part.startswith("{")]


def _singular(noun: str) -> str:
    words = noun.replace("-", " ")
    if words.endswith("ies"):
        return words.removesuffix("ies") + "y"
    return words.removesuffix("s")
