"""Actions on clients of all doors, webhooks, event rules and Spark jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import httpx2
from playwright.sync_api import Page

from entrepot.store_client.blocking import StoreLocation
from tests.browser import client_steps, group_steps, moving
from tests.browser.replicated.acting import SUPER, Action, dialog, everywhere, has, is_gone, is_there, press, select
from tests.browser.replicated.site import ROOT, Site

SUBJECT: Final = "orders-in"
"""The topic that the site's webhooks are of."""
CLIENT: Final = "/api/v1/clients/{name}"
SESSION: Final = "/api/v1/sessions/{name}"
TRACE: Final = "/api/v1/traces/{name}"
CONNECTION: Final = "/api/v1/amqp/connections/{name}"
WEBHOOK: Final = "/api/v1/webhooks/{name}"
RULE: Final = "/api/v1/topics/{name}/event-rules"
OF_CLUSTER: Final = ("UPDATE Cluster:default",)
SECONDS: Final = 60


# -- clients that are there before -------------------------------------------------------------------------------------


def mqtt(site: Site, name: str, *ends: str) -> None:
    """A client away from the page, or one for each end of its name."""
    for client_id in (name + end for end in ends or ("",)):
        site.stack.enter_context(client_steps.mqtt(site.away, client_id, f"{name}/#", user=ROOT))
        everywhere(site, is_there(CLIENT), client_id)


def two_mqtt(site: Site, name: str) -> None:
    mqtt(site, name, "a", "b")


def slow(site: Site, name: str) -> None:
    """A client that answers no message, and some that wait for it."""
    options: dict[str, Any] = {"user": ROOT, "window": client_steps.WINDOW, "acknowledges": False}
    client = site.stack.enter_context(client_steps.mqtt(site.away, name, f"{name}/#", **options))
    client.publish(f"{name}/a", client_steps.WHOLE)
    everywhere(site, is_listed("slow-subscribers"), name)


def sessions(site: Site, name: str, *ends: str) -> None:
    """A session that is away, or one for each end of its name."""
    for client_id in (name + end for end in ends or ("",)):
        client_steps.MqttClient(site.away, client_id, f"{name}/#", user=ROOT).leave()
        everywhere(site, has(SESSION, connected=False), client_id)


def two_sessions(site: Site, name: str) -> None:
    sessions(site, name, "a", "b")


def traced(site: Site, name: str) -> None:
    mqtt(site, name)
    assert site.roots[0].put(TRACE.format(name=name), json={"seconds": 600}).is_success


def amqp(site: Site, name: str) -> None:
    """A connection away from the page, which the server named."""
    site.stack.enter_context(client_steps.amqp(site.away, name, user=ROOT))
    [row] = [each for each in rows(site.roots[0], "amqp/connections") if name in each["user_provided_name"]]
    site.names[name] = row["name"]


def rocketmq(site: Site, name: str) -> None:
    signer = (group_steps.SIGNING.access_key, group_steps.SIGNING.secret)
    site.stack.enter_context(client_steps.rocketmq(site.away, name, user=signer))


# -- other things that are there before --------------------------------------------------------------------------------


def webhook(site: Site, name: str) -> None:
    made = moving.subscribe(site.roots[0], f"http://127.0.0.1:9/{name}", SUBJECT)
    everywhere(site, is_there(WEBHOOK), made)
    site.names[name] = made


def topic(site: Site, name: str) -> None:
    group_steps.make(site.roots[0], f"topics/{name}", queues=1)
    everywhere(site, is_there(RULE), name)


def rule(site: Site, name: str) -> None:
    topic(site, name)
    group_steps.make(site.roots[0], f"topics/{name}/event-rules", dedupSeconds=SECONDS + 1)
    everywhere(site, has(RULE, dedupSeconds=SECONDS + 1), name)


def job(site: Site, name: str) -> None:
    """A job's report.  Its id has the end of its folder."""
    made = f"job-{name}"
    name_servers = tuple(each.address("nameserver") for each in site.cluster.name_servers)
    moving.report_job(StoreLocation(name_servers=name_servers), site.cluster.directory / made / name, SUBJECT)
    site.names[name] = made


# -- what is done ------------------------------------------------------------------------------------------------------


def rows(root: httpx2.Client, path: str) -> list[dict[str, Any]]:
    """All rows of a list, to which every gateway has given its part."""
    answer = root.get(f"/api/v1/{path}", params={"limit": 200}).json()
    assert answer.get("next") is None
    assert answer.get("answered", {"missing": []})["missing"] == []
    found: list[dict[str, Any]] = answer["value"]
    return found


def ids(root: httpx2.Client, path: str) -> set[str]:
    return {each["id"] for each in rows(root, path)}


def is_listed(path: str) -> Callable[[httpx2.Client, str], bool]:
    return lambda root, name: name in ids(root, path)


def is_unlisted(path: str) -> Callable[[httpx2.Client, str], bool]:
    """True once a whole list lacks it."""
    return lambda root, name: name not in ids(root, path)


def are_gone(path: str) -> Callable[[httpx2.Client, str], bool]:
    """True once neither of two is found."""
    return lambda root, name: all(is_gone(path)(root, name + end) for end in "ab")


def has_sink(root: httpx2.Client, name: str) -> bool:
    return any(each["topic"] == name and each["sink"].endswith(name) for each in rows(root, "webhooks"))


def tries_thrice(root: httpx2.Client, name: str) -> bool:
    return bool(root.get(WEBHOOK.format(name=name)).json()["config"]["maxattempts"] == 3)


def diverts(root: httpx2.Client, name: str) -> bool:
    has_target = is_there("/api/v1/topics/{name}out")(root, name)
    return has(RULE, onInvalid="divert", divertTo=f"{name}out")(root, name) and has_target


# -- the pages' buttons ------------------------------------------------------------------------------------------------


def ask(page: Page, name: str, label: str, last: str) -> None:
    """Press a button of the thing's page, and its question's."""
    press(page, label)
    press(dialog(page), last)


def listed(page: Page, name: str, label: str, last: str, ends: str = "") -> None:
    """Mark the row, or one for each end of its name, and press."""
    for each in [name + end for end in ends] or [name]:
        select(page, each)
    ask(page, name, label, last)


def create_webhook(page: Page, name: str) -> None:
    page.get_by_role("button", name="Create a webhook", exact=True).first.click()
    form = dialog(page, "Create a webhook")
    form.get_by_label("Topic", exact=True).fill(name)
    form.get_by_label("Sink", exact=True).fill(f"http://127.0.0.1:9/{name}")
    press(form, "Create webhook")


def change_webhook(page: Page, name: str) -> None:
    press(page, "Change")
    form = dialog(page)
    form.get_by_label("Attempts").fill("3")
    press(form, "Change webhook")


def create_rule(page: Page, name: str) -> None:
    page.get_by_role("button", name="Create an event rule", exact=True).first.click()
    form = dialog(page)
    form.get_by_label("Topic", exact=True).fill(name)
    form.get_by_label("Known events are dropped for, s").fill(str(SECONDS))
    press(form, "Create rule")


def change_rule(page: Page, name: str) -> None:
    press(page, "Change")
    form = dialog(page)
    form.get_by_label("Known events are dropped for, s").fill(str(SECONDS))
    press(form, "Change rule")


def divert(page: Page, name: str) -> None:
    press(page, "Change")
    form = dialog(page)
    form.get_by_label("What does not conform").select_option("divert")
    form.get_by_label("Diverted to topic").fill(f"{name}out")
    press(form, "Change rule")


# -- the tables --------------------------------------------------------------------------------------------------------

CUT: Final = "client disconnected"
BOX: Final = "Select {name}"
LACKING: Final = ("{name}", "takes UPDATE on the cluster")
TRACED: Final = ("Traces are for super users",)
DISCONNECT: Final = partial(ask, label="Disconnect", last="Disconnect")
DISCONNECT_LISTED: Final = partial(listed, label="Disconnect 1", last="Disconnect")
DISCONNECT_TWO: Final = partial(listed, label="Disconnect 2", last="Disconnect 2", ends="ab")

MQTT: Final = (
    Action("mqtt-disconnect", "clients/{name}", DISCONNECT, is_gone(CLIENT), OF_CLUSTER, CUT, mqtt,
           button="Disconnect", shows=LACKING, vanishes=True),
    Action("mqtt-disconnect-listed", "clients?contains={name}", DISCONNECT_LISTED, is_gone(CLIENT), OF_CLUSTER, CUT,
           mqtt, button=BOX, shows=LACKING),
    Action("mqtt-disconnect-several", "clients?contains={name}", DISCONNECT_TWO, are_gone(CLIENT), OF_CLUSTER, CUT,
           two_mqtt, button=f"{BOX}a", shows=LACKING),
    Action("mqtt-disconnect-slow", "slow-subscribers", DISCONNECT_LISTED, is_gone(CLIENT), OF_CLUSTER, CUT, slow,
           button=BOX, shows=LACKING),
    Action("session-end-connected", "clients/{name}", partial(ask, label="End session", last="End session"),
           is_gone(SESSION), OF_CLUSTER, "session deleted", mqtt, button="End session", shows=LACKING,
           vanishes=True),
    Action("session-end-away", "clients/{name}", partial(ask, label="End session", last="End session"),
           is_gone(SESSION), OF_CLUSTER, "session deleted", sessions, button="End session", shows=LACKING,
           vanishes=True),
    Action("session-end-listed", "sessions?prefix={name}", partial(listed, label="End 1 session", last="End session"),
           is_gone(SESSION), OF_CLUSTER, "session deleted", sessions, button=BOX, shows=LACKING),
    Action("session-end-several", "sessions?prefix={name}",
           partial(listed, label="End 2 sessions", last="End 2 sessions", ends="ab"), are_gone(SESSION), OF_CLUSTER,
           "session deleted", two_sessions, button=f"{BOX}a", shows=LACKING),
    Action("trace-start", "clients/{name}", partial(ask, label="Start trace", last="Start trace"), is_there(TRACE),
           (SUPER,), "trace started", mqtt, button="Start trace", shows=TRACED),
    Action("trace-end", "clients/{name}", partial(ask, label="Stop trace", last="Stop trace"), is_gone(TRACE), (SUPER,),
           "trace ended", traced, button="Stop trace", shows=TRACED),
)  # fmt: skip

OTHER_DOORS: Final = (
    Action("client-disconnect", "connected-clients?contains={name}", DISCONNECT_LISTED, is_gone(CLIENT), OF_CLUSTER,
           CUT, mqtt, button=BOX, shows=LACKING),
    Action("amqp-close", "amqp-connections/{name}", partial(ask, label="Close", last="Close"), is_gone(CONNECTION),
           OF_CLUSTER, "connection closed", amqp, button="Close", shows=LACKING, vanishes=True),
    Action("amqp-close-listed", "amqp-connections", partial(listed, label="Close 1", last="Close"),
           is_gone(CONNECTION), OF_CLUSTER, "connection closed", amqp, button=BOX, shows=LACKING),
    Action("rocketmq-disconnect", "rocketmq-clients?contains={name}", DISCONNECT_LISTED,
           is_unlisted("rocketmq/clients"), OF_CLUSTER, CUT, rocketmq, button=BOX, shows=LACKING),
)  # fmt: skip

READING: Final = (f"SUB Topic:{SUBJECT}/#",)
NO_READING: Final = ("to consume the topic of subscription",)
RULING: Final = ("UPDATE Topic:{name}",)

WEBHOOKS: Final = (
    Action("webhook-create", "webhooks", create_webhook, has_sink, ("SUB Topic:{name}/#",), "subscription created"),
    Action("webhook-change", "webhooks/{name}", change_webhook, tries_thrice, READING, "subscription changed", webhook,
           button="Change", shows=NO_READING),
    Action("webhook-delete", "webhooks/{name}", partial(ask, label="Delete", last="Delete webhook"), is_gone(WEBHOOK),
           READING, "subscription deleted", webhook, button="Delete", shows=NO_READING),
)  # fmt: skip

EVENT_RULES: Final = (
    Action("event-rule-create", "event-rules", create_rule, has(RULE, dedupSeconds=SECONDS), RULING,
           "event rule changed", topic),
    Action("event-rule-change", "event-rules/{name}", change_rule, has(RULE, dedupSeconds=SECONDS), RULING,
           "event rule changed", rule),
    Action("event-rule-divert", "event-rules/{name}", divert, diverts,
           (*RULING, "PUB Topic:{name}out/#", "CREATE Topic:{name}out"), "event rule changed", rule),
    Action("event-rule-delete", "event-rules/{name}", partial(ask, label="Delete", last="Delete rule"),
           has(RULE, dedupSeconds=0), RULING, "event rule deleted", rule),
)  # fmt: skip

JOBS: Final = (
    Action("job-forget", "ingest-jobs", partial(listed, label="Forget 1 job", last="Forget 1 job"),
           is_unlisted("ingest-jobs"), OF_CLUSTER, "job forgotten", job, button=BOX, shows=LACKING),
)  # fmt: skip

CLIENTS_ACTIONS: Final = (*MQTT, *OTHER_DOORS, *WEBHOOKS, *EVENT_RULES, *JOBS)
