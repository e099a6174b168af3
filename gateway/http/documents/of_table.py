"""The part of the OpenAPI document that the table of operations gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_origin

from entrepot.gateway.http.documents.operation import JSON
from entrepot.gateway.http.documents.refusals import refusals
from entrepot.gateway.operations.change_names import NAMESPACE_PATH
from entrepot.gateway.operations.operation import Operation
from entrepot.gateway.operations.schema import Schema, Schemas, example_of, parameters_of
from entrepot.gateway.operations.shapes import Created, Made, Pieces, Raw


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
        "parameters": [*parameters_of(operation.query, "query"), *parameters_of(operation.head, "header")],
    }
    if operation.about:
        told["description"] = operation.about
    statuses = [400, 401, 403, *([404] if "{" in template else [])]
    if operation.body is not None:
        content: Schema = {"schema": schemas.of(operation.body)}
        if operation.example is not None:
            content["example"] = operation.example
        told["requestBody"] = {"required": operation.needs_body, "content": {JSON: content}}
        statuses += [413, 415]
    told["responses"] = {**_answers(operation, schemas), **refusals("Problem", *statuses)}
    return told


def _answers(operation: Operation, schemas: Schemas) -> Schema:
    answer: Any = operation.answer
    if answer is type(None):
        return {"204": {"description": "Done"}}
    if answer in (Raw, Pieces):
        binary = {"type": "string", "format": "binary"}
        told = {media_type: {"schema": binary, "example": example} for media_type, example in operation.shows.items()}
        return {"200": {"description": operation.outcome, "content": told}}
    is_made, is_created = get_origin(answer) is Made, get_origin(answer) is Created
    shown = get_args(answer)[0] if is_made or is_created else answer
    content = {JSON: {"schema": schemas.of(shown), "example": _example(shown, operation)}}
    if is_made:
        return {
            "200": {"description": "Changed: as it is now", "content": content},
            "201": {"description": "Created: as it is now", "content": content},
        }
    return {"201" if is_created else "200": {"description": operation.outcome, "content": content}}


def _example(shown: Any, operation: Operation) -> Any:
    example = example_of(shown)
    return {**example, **operation.shows} if operation.shows else example
