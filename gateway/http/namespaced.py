"""Names in routes that exist twice: plain, for the default namespace, and below `/namespaces/{namespace}`.

One handler serves both; `topic_name` and `group_name` return the store's names.  A plain path never reaches into a
namespace, because a name with a slash is invalid.
"""

from __future__ import annotations

from fastapi import Request

from entrepot.domain.names import DEFAULT_NAMESPACE, NAMESPACE_SEPARATOR, check_group_name, check_topic_name, qualified
from entrepot.domain.ports import Store
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.operations.asked import known_namespace


def asked_namespace(request: Request) -> str:
    """The path's namespace, existing or not; else the default one."""
    named = request.path_params.get("namespace")
    return DEFAULT_NAMESPACE if named is None else name_in_path(named)


def asked_topic(request: Request, parameter: str) -> str:
    """The store's name of a topic, without checking that its namespace exists: rights are checked before existence."""
    name = name_in_path(parameter)
    if NAMESPACE_SEPARATOR in name:
        check_topic_name(name)  # raises
    return qualified(asked_namespace(request), name)


def asked_group(request: Request, parameter: str) -> str:
    """The store's name of a group, likewise."""
    name = name_in_path(parameter)
    if NAMESPACE_SEPARATOR in name:
        check_group_name(name)
    return qualified(asked_namespace(request), name)


def namespace_of(store: Store, request: Request) -> str:
    """The path's namespace, or the default one.  Raises MissingError if it does not exist."""
    return known_namespace(store, asked_namespace(request))


def topic_name(store: Store, request: Request, parameter: str) -> str:
    """The store's name of a topic, from its plain name in the request."""
    namespace_of(store, request)
    return asked_topic(request, parameter)


def group_name(store: Store, request: Request, parameter: str) -> str:
    """The store's name of a group, from its plain name in the request."""
    namespace_of(store, request)
    return asked_group(request, parameter)
