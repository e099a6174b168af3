"""Request durations and outcomes by method, route template and status, for `/metrics`.

A request ends with the head of its answer, because a stream lasts as long as its client likes.  Labels are route
templates, never paths; unrouted requests are `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from entrepot.domain.measurement import BOUNDS, Histogram
from entrepot.gateway.http.requests.asgi import AsgiApp, Headers, Receive, Scope, Send
from entrepot.gateway.operations.nouns.publishing import PUBLISH

if TYPE_CHECKING:
    from entrepot.gateway.http.requests.at_once import OnPublished, Peer, PublishAtOnce
    from entrepot.gateway.http.requests.problems import ProblemAnswer

TEMPLATE: Final = "entrepot.template"
"""Scope key of the route's template, where set; else FastAPI's route has it."""
ROUTED: Final = "entrepot.routed"
"""Scope key of the scope that was routed in place of this one."""
OTHER: Final = "other"
_OK: Final = 200
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RouteTimes:
    """One method and template.  `others`: answers by status except 200; the rest are 200."""

    __slots__ = ("durations", "others")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.others: Counter[int] = Counter()

    def note(self, status: int, seconds: float) -> None:
        self.durations.observe(seconds)
        if status != _OK:
            self.others[status] += 1

    def by_status(self) -> dict[int, int]:
        """Number of answers of each status."""
        taken = sum(self.durations.counts) - self.others.total()
        return {**({_OK: taken} if taken else {}), **self.others}


class RequestTimes:
    """Durations of all requests."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], RouteTimes] = {}

    def of(self, method: str, template: str) -> RouteTimes:
        """The durations of a route.  Unknown methods share one entry."""
        key = (method if method in _METHODS else OTHER, template)
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = RouteTimes()
        return found

    def metrics(self) -> Iterator[Metric]:
        """The metrics for a scrape."""
        times = HistogramMetricFamily(
            "entrepot_http_request_seconds",
            "Time from the head of an HTTP request to the head of its answer, by route",
            labels=["method", "route"],
        )
        counts = CounterMetricFamily(
            "entrepot_http_requests", "HTTP requests answered, by route", labels=["method", "route", "status"]
        )
        for (method, template), route in self._routes.items():
            buckets = [("+Inf" if bound == inf else str(bound), n) for bound, n in route.durations.cumulative()]
            times.add_metric([method, template], buckets, route.durations.total_seconds)
            for status, count in route.by_status().items():
                counts.add_metric([method, template, str(status)], count)
        yield times
        yield counts

    def timed(self, app: AsgiApp) -> AsgiApp:
        """The app with its answers counted and timed."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began = perf_counter()

            async def noted(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    route = self.of(scope["method"], template_of(scope))
                    route.note(message["status"], perf_counter() - began)
                await send(message)

            await app(scope, receive, noted)

        return measured


class TimedPublish:
    """Fast-path publishes with their durations.  Measuring may cost 3 % of a publish, hence one function without
    attribute look-ups."""

    def __init__(self, publish: PublishAtOnce, times: RequestTimes) -> None:
        self.may_come = publish.may_come
        self.at_once = _timed_at_once(publish, times.of("POST", PUBLISH))


def _timed_at_once(publish: PublishAtOnce, route: RouteTimes) -> Callable[..., bool]:
    """A timed `PublishAtOnce.at_once`; declined requests are measured in the app."""
    take, durations, counts, others = publish.at_once, route.durations, route.durations.counts, route.others

    def at_once(url: bytes, headers: Headers, peer: Peer, body: bytes, on_published: OnPublished) -> bool:
        began = perf_counter()

        def published(problem: ProblemAnswer | None) -> None:
            seconds = perf_counter() - began
            counts[bisect_left(BOUNDS, seconds)] += 1
            durations.total_seconds += seconds
            if problem is not None:
                others[problem.status] += 1
            on_published(problem)

        return take(url, headers, peer, body, published)

    return at_once


def template_of(scope: Scope) -> str:
    """The template of a request's route; `other` where it has none."""
    routed = scope.get(ROUTED, scope)
    template = routed.get(TEMPLATE)
    return str(getattr(routed.get("route"), "path", OTHER) if template is None else template)
