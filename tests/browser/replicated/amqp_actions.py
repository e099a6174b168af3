"""Actions on queues, exchanges, bindings and RabbitMQ's policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import httpx2
from playwright.sync_api import Page

from tests.browser.replicated.acting import Action, dialog, is_gone, is_there, press, select
from tests.browser.replicated.site import Site
from tests.support.waiting import wait_until

QUEUE: Final = "/api/queues/%2F/{name}"
EXCHANGE: Final = "/api/exchanges/%2F/{name}"
BINDINGS: Final = "/api/bindings/%2F/e/{ends}"
INTO_QUEUE: Final = "orders/q/{name}"
OUT_OF_EXCHANGE: Final = "{name}/q/archive"
TO_EXCHANGE: Final = "{name}/e/audit"
FROM_EXCHANGE: Final = "orders/e/{name}"
DEAD: Final = "Dead letters go to exchange"
ALTERNATE: Final = "What no binding takes goes to exchange"
LETTERS: Final = ', "dead-letter-exchange": "orders"'
MOST: Final = 7
WHOSE: Final = {"policies": "a policy", "operator-policies": "an operator's policy"}


# -- what is there before ----------------------------------------------------------------------------------------------


def queues(site: Site, name: str, *ends: str) -> None:
    """One queue, or one for each end of its name."""
    for end in ends or ("",):
        site.put(QUEUE.format(name=name + end))


def two_queues(site: Site, name: str) -> None:
    queues(site, name, "a", "b")


def exchange(site: Site, name: str) -> None:
    site.put(EXCHANGE.format(name=name), type="topic")


def full_queue(site: Site, name: str) -> None:
    queues(site, name)
    message = {"properties": {}, "routing_key": name, "payload": "1", "payload_encoding": "string"}
    assert site.roots[0].post("/api/exchanges/%2F/amq.default/publish", json=message).json()["routed"]
    wait_until(lambda: _ready(site.roots[1], name) == 1, "it has the message")


def bound(made: Callable[[Site, str], None], ends: str) -> Callable[[Site, str], None]:
    """The thing, with a binding by its name."""

    def prepare(site: Site, name: str) -> None:
        made(site, name)
        path = BINDINGS.format(ends=ends.format(name=name))
        assert site.roots[0].post(path, json={"routing_key": name}).is_success
        wait_until(lambda: all(root.get(f"{path}/{name}").is_success for root in site.roots), "it is bound")

    return prepare


def governed(kind: str) -> Callable[[Site, str], None]:
    """A queue with a policy of this kind."""

    def prepare(site: Site, name: str) -> None:
        queues(site, name)
        definition = {"pattern": f"^{name}", "definition": {"max-length": MOST + 1}, "apply-to": "queues"}
        site.put(f"/api/{kind}/%2F/{name}", **definition)
        wait_until(lambda: all(_most(root, name) == MOST + 1 for root in site.roots), "it holds")

    return prepare


# -- what is done ------------------------------------------------------------------------------------------------------


def _ready(root: httpx2.Client, name: str) -> int:
    return int(root.get(QUEUE.format(name=name)).json()["messages_ready"])


def _most(root: httpx2.Client, name: str) -> int | None:
    """The queue's `max-length` by its policies; None without."""
    found: int | None = root.get(QUEUE.format(name=name)).json()["effective_policy_definition"].get("max-length")
    return found


def is_purged(root: httpx2.Client, name: str) -> bool:
    return _ready(root, name) == 0


def is_bound(ends: str) -> Callable[[httpx2.Client, str], bool]:
    return is_there(BINDINGS.format(ends=ends) + "/{name}")


def is_unbound(ends: str) -> Callable[[httpx2.Client, str], bool]:
    return is_gone(BINDINGS.format(ends=ends) + "/{name}")


def holds(most: int | None) -> Callable[[httpx2.Client, str], bool]:
    """True once the policy gives the queue this limit."""
    return lambda root, name: _most(root, name) == most


def are_gone(root: httpx2.Client, name: str) -> bool:
    return all(is_gone(QUEUE)(root, name + end) for end in "ab")


# -- the pages' buttons ------------------------------------------------------------------------------------------------


def create(page: Page, name: str, what: str, a: str, to: str = "") -> None:
    """A queue or an exchange, as the form proposes it, or one that hands messages on `to` the exchange `orders`."""
    press(page, f"Create {a} {what}")
    form = dialog(page, f"Create {a} {what}")
    form.get_by_label("Name", exact=True).fill(name)
    if to:
        form.get_by_label(to).fill("orders")
    press(form, f"Create {what}")


def delete(page: Page, name: str, what: str, label: str = "Delete", verb: str = "Delete") -> None:
    """Press a button of a queue's or exchange's page, and type its name."""
    press(page, label)
    asked = dialog(page)
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, f"{verb} {what}")


def delete_listed(page: Page, name: str) -> None:
    select(page, f"/ {name}")
    delete(page, name, "1 queue", "Delete 1 queue")


def delete_several(page: Page, name: str) -> None:
    for end in "ab":
        select(page, f"/ {name}{end}")
    press(page, "Delete 2 queues")
    asked = dialog(page)
    asked.get_by_label("Type delete 2 to go on").fill("delete 2")
    press(asked, "Delete 2 queues")


def bind(page: Page, name: str, to: str = "", kind: str = "q") -> None:
    """Bind by the name as routing key: a queue to `orders`, or an exchange to something else."""
    press(page, "Bind")
    form = dialog(page)
    if to:
        form.get_by_label("To", exact=True).select_option(kind)
    form.get_by_label("Its name" if to else "Exchange").fill(to or "orders")
    form.get_by_label("Routing key").fill(name)
    press(form, "Bind")


def unbind(page: Page, name: str, what: str = "{name} from orders") -> None:
    press(page, f"Unbind {what.format(name=name)}")
    press(dialog(page), "Delete binding")


def create_policy(page: Page, name: str, kind: str, more: str = "") -> None:
    page.get_by_role("button", name=f"Create {WHOSE[kind]}", exact=True).first.click()
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Pattern of names").fill(f"^{name}")
    form.get_by_label("Definition").fill(f'{{"max-length": {MOST}{more}}}')
    press(form, "Create policy")


def change_policy(page: Page, name: str) -> None:
    press(page, f"Change {name}")
    form = dialog(page)
    form.get_by_label("Definition").fill(f'{{"max-length": {MOST}}}')
    press(form, "Change policy")


def delete_policy(page: Page, name: str) -> None:
    select(page, f"/ {name}")
    press(page, "Delete 1 policy")
    press(dialog(page), "Delete 1 policy")


def policy_actions(kind: str, called: str, what: str) -> tuple[Action, ...]:
    """Those of users' or operators' policies."""
    governs, at, create_it = ("UPDATE Topic:*",), "queue-policies", partial(create_policy, kind=kind)
    return (
        Action(f"{called}-create", at, create_it, holds(MOST), governs, f"{what} created", queues),
        Action(f"{called}-change", at, change_policy, holds(MOST), governs, f"{what} changed", governed(kind)),
        Action(f"{called}-delete", at, delete_policy, holds(None), governs, f"{what} deleted", governed(kind)),
    )  # fmt: skip


QUEUES: Final = (
    Action("queue-create", "queues", partial(create, what="queue", a="a"), is_there(QUEUE), ("CREATE Topic:{name}",),
           "queue declared"),
    Action("queue-create-with-letters", "queues", partial(create, what="queue", a="a", to=DEAD),
           is_there(QUEUE), ("CREATE Topic:{name}", "SUB Group:{name}", "PUB Topic:orders/#"), "queue declared"),
    Action("queue-purge", "queues/%2F/{name}", partial(delete, what="queue", label="Purge", verb="Purge"), is_purged,
           ("SUB Group:{name}",), "queue purged", full_queue),
    Action("queue-delete", "queues/%2F/{name}", partial(delete, what="queue"), is_gone(QUEUE), ("DELETE Topic:{name}",),
           "queue deleted", queues),
    Action("queue-delete-listed", "queues?q={name}", delete_listed, is_gone(QUEUE), ("DELETE Topic:{name}",),
           "queue deleted", queues),
    Action("queue-delete-several", "queues?q={name}", delete_several, are_gone,
           ("DELETE Topic:{name}a", "DELETE Topic:{name}b"), "queue deleted", two_queues),
)  # fmt: skip

EXCHANGES: Final = (
    Action("exchange-create", "exchanges", partial(create, what="exchange", a="an"), is_there(EXCHANGE),
           ("CREATE Topic:{name}",), "exchange declared"),
    Action("exchange-create-with-alternate", "exchanges", partial(create, what="exchange", a="an", to=ALTERNATE),
           is_there(EXCHANGE), ("CREATE Topic:{name}", "SUB Topic:{name}/#", "PUB Topic:orders/#"),
           "exchange declared"),
    Action("exchange-delete", "exchanges/%2F/{name}", partial(delete, what="exchange"), is_gone(EXCHANGE),
           ("DELETE Topic:{name}",), "exchange deleted", exchange),
)  # fmt: skip

BINDING: Final = (
    Action("queue-bind", "queues/%2F/{name}", bind, is_bound(INTO_QUEUE),
           ("UPDATE Topic:{name}", "SUB Topic:orders/{name}"), "binding created", queues),
    Action("queue-unbind", "queues/%2F/{name}", unbind, is_unbound(INTO_QUEUE), ("UPDATE Topic:{name}",),
           "binding deleted", bound(queues, INTO_QUEUE)),
    Action("exchange-bind-queue", "exchanges/%2F/{name}", partial(bind, to="archive"), is_bound(OUT_OF_EXCHANGE),
           ("UPDATE Topic:archive", "SUB Topic:{name}/{name}"), "binding created", exchange),
    Action("exchange-bind-exchange", "exchanges/%2F/{name}", partial(bind, to="audit", kind="e"), is_bound(TO_EXCHANGE),
           ("UPDATE Topic:audit", "SUB Topic:{name}/{name}", "PUB Topic:audit/{name}"), "binding created", exchange),
    Action("exchange-unbind-outward", "exchanges/%2F/{name}", partial(unbind, what="archive from {name}"),
           is_unbound(OUT_OF_EXCHANGE), ("UPDATE Topic:archive",), "binding deleted", bound(exchange, OUT_OF_EXCHANGE)),
    Action("exchange-unbind-inward", "exchanges/%2F/{name}", unbind, is_unbound(FROM_EXCHANGE),
           ("UPDATE Topic:{name}",), "binding deleted", bound(exchange, FROM_EXCHANGE)),
    Action("binding-delete-listed", "bindings?view=table", unbind, is_unbound(INTO_QUEUE), ("UPDATE Topic:{name}",),
           "binding deleted", bound(queues, INTO_QUEUE)),
)  # fmt: skip

AMQP_ACTIONS: Final = (
    *QUEUES,
    *EXCHANGES,
    *BINDING,
    Action("policy-create-with-letters", "queue-policies", partial(create_policy, kind="policies", more=LETTERS),
           holds(MOST), ("UPDATE Topic:*", "SUB Group:*", "PUB Topic:orders/#"), "queue policy created", queues),
    *policy_actions("policies", "policy", "queue policy"),
    *policy_actions("operator-policies", "operator-policy", "operator policy"),
)  # fmt: skip
