"""Names of routes that are there twice: plain, for the default namespace, and below `/namespaces/{namespace}`.

A handler is one function; `topic_name` and `group_name` give it names as the store knows them, whichever way it was
reached.  A plain path never reaches into a namespace: a name with a slash is none.
"""

from __future__ import annotations

from typing import Final

from fastapi import Request

from entrepot.domain.names import DEFAULT_NAMESPACE, NAMESPACE_SEPARATOR, check_group_name, check_topic_name, qualified
from entrepot.domain.ports import Store
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.problems import MissingError

NAMESPACE_PATH: Final = "/namespaces/{namespace}"


def asked_namespace(request: Request) -> str:
    """The namespace that the path names, whether or not there is one, or the default one."""
    named = request.path_params.get("namespace")
    return DEFAULT_NAMESPACE if named is None else name_in_path(named)


def asked_topic(request: Request, parameter: str) -> str:
    """A topic as the store would know it: who may ask is decided before whether there is such a namespace."""
    name = name_in_path(parameter)
    if NAMESPACE_SEPARATOR in name:
        check_topic_name(name)  # refuses it
    return qualified(asked_namespace(request), name)


def asked_group(request: Request, parameter: str) -> str:
    """A group likewise."""
    name = name_in_path(parameter)
    if NAMESPACE_SEPARATOR in name:
        check_group_name(name)
    return qualified(asked_namespace(request), name)


def namespace_of(store: Store, request: Request) -> str:
    """The namespace that the path names, or the default one.  Raises where there is none of that name."""
    return known_namespace(store, asked_namespace(request))


def known_namespace(store: Store, name: str) -> str:
    """The name, if there is such a namespace."""
    if name not in store.topology.namespaces():
        raise MissingError(
            "namespace-not-found", "The namespace does not exist", f"there is no namespace {name[:80]!r}"
        )
    return name


def topic_name(store: Store, request: Request, parameter: str) -> str:
    """A topic as the store knows it, from a path's parameter or any other place that has a plain name."""
    namespace_of(store, request)
    return asked_topic(request, parameter)


def group_name(store: Store, request: Request, parameter: str) -> str:
    """A group as the store knows it."""
    namespace_of(store, request)
    return asked_group(request, parameter)
