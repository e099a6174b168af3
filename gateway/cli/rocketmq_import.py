"""`entrepot import rocketmq`: topics, groups, users and rights of a RocketMQ cluster for a running server.

The command asks the cluster itself, and makes what it has by the server's own operations, so rights and audit are
theirs.  Existing objects are never changed: equal ones count as done, others are listed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from entrepot.domain.written_text import WrittenTextError, written_text
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import FAILED, OK, USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_table
from entrepot.gateway.cli.pages import all_pages
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, api_path

if TYPE_CHECKING:
    from entrepot.domain.access.model import Policy
    from entrepot.domain.definitions.consumer_group import ConsumerGroup
    from entrepot.domain.topic import Topic
    from entrepot.store_client.rocketmq.definitions import ClusterDefinitions, ClusterUser

ROWS_PER_REQUEST: Final = 500
WAIT_SECONDS: Final = 300.0
PAGE: Final = 1000
SECRET_VARIABLE: Final = "ENTREPOT_ROCKETMQ_SECRET"
_KINDS: Final = ("namespaces", "topics", "groups", "policies", "users")
"""In order of their dependencies: a user has its rights from its first moment on."""
_NO_USERS: Final = "the server has no users yet: make a super user with `entrepot user create`, and import again"


def _option(metavar: str, text: str, **others: Any) -> Any:
    return typer.Option(metavar=metavar, help=text, **others)


NameServersOption = Annotated[
    str, _option("HOST:PORT,...", "Addresses of the cluster's name servers.", show_default=False)
]
AddressOption = Annotated[
    list[str] | None,
    _option("BROKER=HOST:PORT", "Place to connect to instead of a broker's own; may be repeated."),
]
SecretFileOption = Annotated[
    Path | None,
    _option("FILE", f"File with the secret in its first line, - is standard input; else {SECRET_VARIABLE} has it."),
]
HomeOption = Annotated[str, _option("NAME", "RocketMQ's namespace of the namespace `default` here.")]
TlsCaOption = Annotated[Path | None, _option("FILE", "Certificates (PEM) to trust; else the system's.")]
TlsCertificateOption = Annotated[Path | None, _option("FILE", "Certificate (PEM) to show, with --tls-key.")]
TlsKeyOption = Annotated[Path | None, _option("FILE", "Key (PEM) of --tls-certificate.")]


def rocketmq(
    name_servers: NameServersOption,
    cluster: Annotated[str, _option("NAME", "Cluster, where name servers know several.")] = "",
    namespace: HomeOption = "",
    address: AddressOption = None,
    access_key: Annotated[str, _option("KEY", "Access key, if the cluster requires one.")] = "",
    secret_file: SecretFileOption = None,
    tls: Annotated[bool, typer.Option("--tls", help="TLS to name servers and brokers.")] = False,
    tls_ca: TlsCaOption = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be made, and make nothing.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> int:
    """Import topics, consumer groups, users and rights (ACL 2.0) of an Apache RocketMQ 5 cluster.

    The cluster is only read. Omitted definitions are listed with the reason; the exit code is then 1. Objects that are
    there already are not changed. A user's secret becomes its signing secret here, so RocketMQ clients keep their
    credentials. The import may be repeated.
    """
    asked = {
        "name_servers": [each.strip() for each in name_servers.split(",") if each.strip()],
        "cluster": cluster,
        "namespace": namespace,
        "addresses": dict(_pair(each) for each in address or ()),
        "access_key": access_key,
        "tls": tls,
        "tls_ca": tls_ca,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
    }
    report = _Import(Client(server), is_dry=dry_run).run(_definitions(asked, _secret(secret_file)))
    if as_json:
        print_json({"done": report.done, "made": report.made, "left_out": report.left_out})
    else:
        _tell(report, is_dry=dry_run)
    return FAILED if report.left_out else OK


# -- the cluster -----------------------------------------------------------------------------------------------------


def _definitions(asked: dict[str, Any], secret: str) -> ClusterDefinitions:
    """Ask the cluster.  Raises CommandError."""
    import asyncio

    from entrepot.domain.errors import Code, EntrepotError
    from entrepot.gateway.clock import SystemClock
    from entrepot.gateway.log import configure_logging
    from entrepot.gateway.settings.stores import RocketMqPlace
    from entrepot.store_client.rocketmq import rocketmq_settings
    from entrepot.store_client.rocketmq.definitions import read_definitions

    configure_logging("error", "console")  # the exit code and its line tell a fault once
    try:
        settings = rocketmq_settings(**RocketMqPlace(**asked).place(secret))
        return asyncio.run(read_definitions(settings, SystemClock()))
    except EntrepotError as refusal:
        code = USAGE if refusal.code is Code.BAD_REQUEST else FAILED
        raise CommandError(f"the RocketMQ cluster cannot be read: {refusal.message}", code) from refusal


def _pair(text: str) -> tuple[str, str]:
    own, equals, place = text.partition("=")
    if not equals or not own or not place:
        raise CommandError(f"--address {text}: write BROKER=HOST:PORT", USAGE)
    return own, place


def _secret(file: Path | None) -> str:
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "")
    try:
        text = written_text(sys.stdin.buffer.readline() if str(file) == "-" else file.read_bytes())
    except (OSError, WrittenTextError) as error:
        raise CommandError(f"cannot read the secret in {file}: {error}", USAGE) from error
    return text.partition("\n")[0].rstrip("\r")


# -- the server ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Report:
    """`done`: objects by kind, new and equal ones.  `made`: the new ones, with their definitions, without secrets."""

    done: dict[str, int] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An object to make.  `definition`: what operations of the server take and show of it."""

    kind: str
    namespace: str
    name: str
    definition: dict[str, Any]
    secrets: dict[str, Any] = field(default_factory=dict)


class _Import:
    """One import into a server."""

    def __init__(self, client: Client, *, is_dry: bool) -> None:
        self._client, self._is_dry = client, is_dry
        self._report = _Report()
        self._there: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    def run(self, found: ClusterDefinitions) -> _Report:
        for left in found.left_out:
            self._leave_out(left.kind, left.namespace, left.name, left.reason)
        self._there["namespaces", ""] = self._listed("/api/v1/namespaces", "name", limit=PAGE)
        wanted = list(_wanted(found))
        for kind in _KINDS:
            of_kind = [each for each in wanted if each.kind == kind]
            if kind in ("policies", "users") and of_kind and not self._users():
                for each in of_kind:
                    self._leave_out(kind, "", each.name, _NO_USERS)
                continue
            self._make(kind, [each for each in of_kind if self._is_new(each) and self._is_whole(each)])
        return self._report

    def _users(self) -> dict[str, dict[str, Any]]:
        return self._existing("users", "")

    def _existing(self, kind: str, namespace: str) -> dict[str, dict[str, Any]]:
        """Return what the server has of a kind, by name."""
        found = self._there.get((kind, namespace))
        if found is None:
            if kind == "users":
                found = self._listed("/api/v1/users", "name", limit=PAGE)
            elif kind == "policies":
                listed = self._listed("/api/v1/acls", "subject", limit=PAGE)
                found = {subject.removeprefix("User:"): policy for subject, policy in listed.items()}
            elif namespace not in self._there["namespaces", ""]:
                found = {}
            else:
                found = self._listed(api_path(namespace, kind), "name")
            self._there[kind, namespace] = found
        return found

    def _listed(self, path: str, key: str, **limit: int) -> dict[str, dict[str, Any]]:
        if limit:
            rows = all_pages(self._client, path, limit["limit"])
        else:
            rows = [row for page in self._client.pages(path) for row in page["value"]]
        return {row[key]: row for row in rows}

    def _is_new(self, wanted: _Wanted) -> bool:
        there = self._existing(wanted.kind, wanted.namespace).get(wanted.name)
        if there is None:
            return True
        different = _difference(wanted.definition, there)
        if different:
            self._leave_out(wanted.kind, wanted.namespace, wanted.name, f"it is there, with another {different}")
        else:
            self._count(wanted.kind)
        return False

    def _is_whole(self, wanted: _Wanted) -> bool:
        """True if the object may be made: a user has a secret."""
        if wanted.kind == "users" and not wanted.secrets:
            self._leave_out("users", "", wanted.name, "the cluster does not tell its secret: create it here with one")
            return False
        return True

    def _make(self, kind: str, wanted: list[_Wanted]) -> None:
        if self._is_dry:
            for each in wanted:
                self._note(each)
        elif kind == "topics":
            for namespace in dict.fromkeys(each.namespace for each in wanted):
                rows = [each for each in wanted if each.namespace == namespace]
                for start in range(0, len(rows), ROWS_PER_REQUEST):
                    self._make_topics(namespace, rows[start : start + ROWS_PER_REQUEST])
        else:
            for each in wanted:
                self._put(each)

    def _make_topics(self, namespace: str, wanted: list[_Wanted]) -> None:
        body = {"value": [{"name": each.name, **each.definition} for each in wanted]}
        path = api_path(namespace, "topics")
        outcomes = self._client.request("PUT", path, body=body, wait_seconds=WAIT_SECONDS)["value"]
        for each, outcome in zip(wanted, outcomes, strict=True):
            if "error" in outcome:
                self._leave_out("topics", namespace, each.name, outcome["error"]["message"])
            else:
                self._note(each)

    def _put(self, wanted: _Wanted) -> None:
        """Make one object, unless somebody has made it meanwhile."""
        only_new = {"if-none-match": "*"} if wanted.kind in ("users", "policies") else None
        body = {**wanted.definition, **wanted.secrets}
        try:
            self._client.request("PUT", _path(wanted), body=body, headers=only_new, wait_seconds=WAIT_SECONDS)
        except CommandError as refusal:
            if refusal.status is None or refusal.status >= 500 or refusal.status in (401, 403):
                raise
            self._leave_out(wanted.kind, wanted.namespace, wanted.name, refusal.message)
        else:
            self._note(wanted)

    def _note(self, made: _Wanted) -> None:
        self._count(made.kind)
        named = {"kind": made.kind, "namespace": made.namespace, "name": made.name}
        self._report.made.append({**named, "definition": made.definition})

    def _count(self, kind: str) -> None:
        self._report.done[kind] = self._report.done.get(kind, 0) + 1

    def _leave_out(self, kind: str, namespace: str, name: str, reason: str) -> None:
        self._report.left_out.append({"kind": kind, "namespace": namespace, "name": name, "reason": reason})


def _path(wanted: _Wanted) -> str:
    if wanted.kind == "groups":
        return api_path(wanted.namespace, "groups", segment(wanted.name))
    noun = {"namespaces": "namespaces", "users": "users", "policies": "acls"}[wanted.kind]
    return f"/api/v1/{noun}/{segment(wanted.name)}"


def _difference(wanted: dict[str, Any], there: dict[str, Any]) -> str:
    """Return the first member that is another one, or an empty text."""
    for name, value in wanted.items():
        if isinstance(value, dict):
            inner = _difference(value, there.get(name) or {})
            if inner:
                return name
        elif there.get(name) != value:
            return name
    return ""


def _wanted(found: ClusterDefinitions) -> Iterator[_Wanted]:
    from entrepot.domain.names import split_name

    names = [*(topic.name for topic in found.topics), *(group.name for group in found.groups)]
    for namespace in sorted({split_name(name)[0] for name in names} - {DEFAULT_NAMESPACE}):
        yield _Wanted("namespaces", "", namespace, {})
    for topic in found.topics:
        yield _Wanted("topics", *split_name(topic.name), _topic(topic))
    for group in found.groups:
        yield _Wanted("groups", *split_name(group.name), _group(group))
    for policy in found.policies:
        yield _Wanted("policies", "", policy.subject, _policy(policy))
    for user in found.users:
        yield _user(user)


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "queues": topic.queues,
        "writeQueues": topic.write_queues,
        "type": topic.type.value,
        "permission": topic.permission.value,
        "cleanup": topic.cleanup.value,
    }


def _group(group: ConsumerGroup) -> dict[str, Any]:
    from entrepot.domain.retry_policy import RetryKind

    retry: dict[str, Any] = {"kind": group.retry.kind.value}
    if group.retry.kind is RetryKind.LIST:
        retry["delaysMs"] = list(group.retry.delays_ms)
    elif group.retry.kind is RetryKind.EXPONENTIAL:
        policy = group.retry
        retry |= {"initialMs": policy.initial_ms, "maxMs": policy.max_ms, "multiplier": policy.multiplier}
    return {"maxAttempts": group.max_attempts, "fifo": group.fifo, "start": group.start, "retry": retry}


def _policy(policy: Policy) -> dict[str, Any]:
    statements = [
        {
            "effect": each.effect.value,
            "actions": [action.value for action in each.actions],
            "resources": list(each.resources),
            "sources": list(each.sources),
        }
        for each in policy.statements
    ]
    return {"statements": statements}


def _user(user: ClusterUser) -> _Wanted:
    secrets = {"signingSecret": user.secret} if user.secret else {}
    return _Wanted("users", "", user.name, {"super": user.is_super, "enabled": user.is_enabled}, secrets)


# -- output ----------------------------------------------------------------------------------------------------------


def _tell(report: _Report, *, is_dry: bool) -> None:
    kinds = [kind for kind in _KINDS if kind in {*report.done, *(row["kind"] for row in report.left_out)}]
    counts = {kind: sum(row["kind"] == kind for row in report.left_out) for kind in kinds}
    done = "would be there" if is_dry else "done"
    rows = [(kind, report.done.get(kind, 0), counts[kind]) for kind in kinds]
    print_table(("definitions", done, "remarks"), rows)
    if is_dry and report.made:
        made = ((row["kind"], row["namespace"], row["name"], _words(row["definition"])) for row in report.made)
        print_table(("kind", "namespace", "name", "definition"), made, title="Would be made")
    if report.left_out:
        columns = ("kind", "namespace", "name", "reason")
        print_table(
            columns, ([row[column] for column in columns] for row in report.left_out), title="Left out, or in part"
        )


def _words(definition: dict[str, Any]) -> str:
    if "statements" in definition:
        return f"{len(definition['statements'])} statements"
    if "retry" in definition:
        definition = {**definition, "retry": definition["retry"]["kind"]}
    return ", ".join(f"{name} {value}" for name, value in definition.items() if value is not None)
