"""Names of virtual hosts as namespaces, and back.

`/` is the namespace `default`.  A name of a namespace's alphabet (`domain.names`) stands for itself.  Any other text,
such as `plant/a.b`, is `--` and its bytes, each but a-z A-Z 0-9 - as `_XX`: `--plant_2Fa_2Eb`.  So a namespace's name
stays what every store, topic name and key takes.  No two virtual hosts share a namespace: a name that looks like an
escaped one is escaped itself.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.escaped_names import Escaping
from entrepot.domain.names import DEFAULT_NAMESPACE, MAX_NAMESPACE_LENGTH, check_namespace

DEFAULT_VHOST: Final = "/"
_MARK: Final = "--"
_ESCAPING: Final = Escaping("-", "_")


def vhost_of(namespace: str) -> str:
    """The virtual host of a namespace."""
    if namespace == DEFAULT_NAMESPACE:
        return DEFAULT_VHOST
    if not namespace.startswith(_MARK):
        return namespace
    try:
        text = _ESCAPING.text(namespace.removeprefix(_MARK), "strict")
    except UnicodeDecodeError:
        return namespace
    return text if text and namespace_of(text) == namespace else namespace


def namespace_of(vhost: str) -> str:
    """The namespace of a virtual host; the default one is `/`, and may be spelt out.  Text that no virtual host can
    have as its name is returned as it is: there is no such namespace."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_NAMESPACE
    if not vhost or (_is_namespace(vhost) and vhost_of(vhost) in (vhost, DEFAULT_VHOST)):
        return vhost
    try:
        return _MARK + _ESCAPING.name(vhost)
    except UnicodeEncodeError:
        return vhost


def check_vhost_name(vhost: str) -> None:
    """Raise BAD_REQUEST for a name that no virtual host can have."""
    if not _is_namespace(namespace_of(vhost)):
        most, room = MAX_NAMESPACE_LENGTH, MAX_NAMESPACE_LENGTH - len(_MARK)
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"{vhost[:80]!r} is not the name of a virtual host: 1 to {most} characters out of a-z A-Z 0-9 _ -, or "
            f"up to {room} with others, where every byte but a-z A-Z 0-9 - counts as three",
        )


def _is_namespace(name: str) -> bool:
    try:
        check_namespace(name)
    except EntrepotError:
        return False
    return True
