"""The part of the OpenAPI document that the table of operations gives.

ADR 79: an operation is written once. Invariant: all that is said of an operation comes from its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from entrepot.gateway.http.documents.refusals import refusals
from entrepot.gateway.operations.row.change_names import NAMESPACE_PATH
from entrepot.gateway.operations.row.operation import AS_ASKED, Operation
from entrepot.gateway.operations.row.rights import ALWAYS
from entrepot.gateway.operations.row.schema import Schema, Schemas, example_of, parameters_of
from entrepot.gateway.operations.row.shapes import Checked, Created, Declared, Made, Part, Pieces, Raw

JSON: Final = "application/json"


def paths_of(operations: Iterable[Operation], schemas: Schemas) -> dict[str, dict[str, Schema]]:
    """Return the paths of the document; `schemas` collects what they refer to."""
    paths: dict[str, dict[str, Schema]] = {}
    for operation in operations:
        for template in operation.templates:
            paths.setdefault(template, {})[operation.method.lower()] = _told(operation, template, schemas)
    return paths


def _told(operation: Operation, template: str, schemas: Schemas) -> Schema:
    is_below = NAMESPACE_PATH in template
    told: Schema = {
        "tags": ["namespaces" if is_below else operation.noun.name],
        "summary": operation.summary,
        "operationId": operation.id + ("InNamespace" if is_below else ""),
        "parameters": [
            *parameters_of(operation.query, "query"),
            *parameters_of(operation.head or operation.heads, "header"),
        ],
    }
    if operation.about:
        told["description"] = operation.about
    if operation.right.opened_by == ALWAYS:
        told["security"] = []
        statuses = [400, 404]
    else:
        statuses = [400, 401, 403, *([404] if "{" in template else [])]
    if operation.body is not None:
        shape = schemas.of(operation.body) if operation.body_as is None else operation.body_as(schemas)
        content: Schema = {"schema": shape}
        if operation.example is not None:
            content["example"] = operation.example
        told["requestBody"] = {"required": operation.needs_body, "content": {JSON: content}}
        statuses += [413, 415]
    if operation.comes_as:
        told["requestBody"] = {"required": False, "content": _modes(operation)}
        statuses += [404, 413, 415]
    statuses += operation.refused_by
    told["responses"] = {**_answers(operation, schemas), **refusals(operation.noun.form.value, *statuses)}
    return told


def _modes(operation: Operation) -> Schema:
    found: Schema = {}
    for media_type, (schema, example) in operation.comes_as.items():
        found[media_type] = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return found


def _answers(operation: Operation, schemas: Schemas) -> Schema:
    """Return the successful answers.  Its headers go with the last of them, which is the one that made something."""
    found = _by_status(operation.answer, operation, schemas)
    if operation.answer_headers:
        found[max(found)]["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in operation.answer_headers.items()
        }
    return found


def _by_status(answer: Any, operation: Operation, schemas: Schemas) -> Schema:
    if answer is type(None):
        return {"204": {"description": "Done" if operation.outcome == AS_ASKED else operation.outcome}}
    if get_origin(answer) in (Union, UnionType) and type(None) in get_args(answer):
        shown = next(each for each in get_args(answer) if each is not type(None))
        return {**_by_status(shown, operation, schemas), "204": {"description": "Done"}}
    if answer is Declared:
        return {"201": {"description": "Created"}, "204": {"description": "It was there, and is as asked"}}
    if answer is Checked:
        return _checked(schemas)
    if answer in (Raw, Pieces):
        content = {"content": _raw(operation)} if operation.shows else {}
        return {"200": {"description": operation.outcome, **content}}
    if answer == Created[None]:
        return {"201": {"description": operation.outcome}}
    is_made, is_created = get_origin(answer) is Made, get_origin(answer) is Created
    shown = get_args(answer)[0] if is_made or is_created else answer
    content = {JSON: {"schema": schemas.of(shown), "example": _example(shown, operation)}}
    if is_made:
        return {
            "200": {"description": "Changed: as it is now", "content": content},
            "201": {"description": "Created: as it is now", "content": content},
        }
    return {"201" if is_created else "200": {"description": operation.outcome, "content": content}}


def _raw(operation: Operation) -> Schema:
    """Return the content of an answer that is not JSON by a type: its examples, by media type."""
    found: Schema = {}
    for media_type, example in operation.shows.items():
        schema: Schema = {"type": "string", "format": "binary"}
        if isinstance(example, dict):
            schema = {"type": "object", "required": [*example]}
        elif media_type.startswith("text/"):
            schema = {"type": "string"}
        found[media_type] = {"schema": schema, "example": example}
    return found


def _checked(schemas: Schemas) -> Schema:
    return {
        "200": {"description": "It works", "content": {JSON: _told_by(_Works, {"status": "ok"}, schemas)}},
        "503": {"description": "It does not", "content": {JSON: _told_by(_Fails, _FAILED, schemas)}},
    }


def _told_by(kind: Any, example: Any, schemas: Schemas) -> Schema:
    """A check may tell more than its status, such as a port."""
    return {"schema": {**schemas.of(kind), "additionalProperties": True}, "example": example}


class _Works(Part, frozen=True):
    status: str


class _Fails(_Works, frozen=True):
    reason: str


_FAILED: Final = {"status": "failed", "reason": "the server is not ready"}


def _example(shown: Any, operation: Operation) -> Any:
    example = example_of(shown)
    return {**example, **operation.shows} if operation.shows else example
