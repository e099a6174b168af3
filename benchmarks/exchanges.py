"""AMQP's exchanges by themselves: `python -m benchmarks exchanges`.

Bindings, each to a queue of its own, are put on one exchange. Then messages are routed with new keys and with repeated
ones. It runs in one process and waits for nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from benchmarks.processes import BenchmarkError, resident_bytes_here
from benchmarks.report import Goal, Report
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.exchanges.routing import Routing

BINDINGS: Final = 100_000
QUICK_BINDINGS: Final = 10_000
WILDCARD_SHARE: Final = 0.2
VOCABULARY: Final = 500
WORDS: Final = (4, 5, 6)
ROUTES: Final = 100_000
HOT_KEYS: Final = 1_000
CELERY_LEVELS: Final = 28
SEED: Final = 20_261_121


def run(console: Console, *, quick: bool) -> Report:
    """Run all; the seed is printed with the figures."""
    count = QUICK_BINDINGS if quick else BINDINGS
    report = Report("exchanges", "AMQP exchanges: the routing table alone, in one process")
    report.notes.append(
        f"seed {SEED}; topic: keys of {WORDS[0]} to {WORDS[-1]} words out of {VOCABULARY}, "
        f"{WILDCARD_SHARE:.0%} of the patterns with * or #; uncached: every key is new"
    )
    for work in (_topic, _direct, _fanout, _hash, _headers, _celery_delay):
        console.print(work.__name__.strip("_").replace("_", " "), style="dim")
        work(report, count, random.Random(SEED))
    return report


def _topic(report: Report, count: int, rng: random.Random) -> None:
    routing = _with_exchange(ExchangeType.TOPIC, count)
    patterns = [_pattern(rng) for _ in range(count)]
    before = resident_bytes_here()
    begun = time.process_time()
    for number, pattern in enumerate(patterns):
        routing.bind(Binding("bench", f"q{number}", pattern))
    report.add(f"topic: {count:,} bindings added", "CPU-s", time.process_time() - begun, goal=Goal(5, at_most=True))
    report.add(f"topic: memory of {count:,} bindings", "MB", (resident_bytes_here() - before) / 1e6)
    # a literal key of a pattern every other time, so that there are hits and misses
    keys = _distinct([_key_for(rng.choice(patterns), rng) if rng.random() < 0.5 else _key(rng) for _ in range(ROUTES)])
    rate, found = _rate(routing, keys)
    report.add("topic: routes, every key new", "routes/CPU-s", rate, goal=Goal(50_000))
    report.notes.append(f"topic: {found / len(keys):.1f} queues for a message")
    _hot(report, "topic", routing, keys)
    begun = time.process_time()
    for binding in routing.bindings_of_source("bench"):
        routing.remove(routing.removal_of_binding(binding))
    report.add(f"topic: {count:,} bindings removed", "CPU-s", time.process_time() - begun)


def _direct(report: Report, count: int, rng: random.Random) -> None:
    routing = _with_exchange(ExchangeType.DIRECT, count)
    for number in range(count):
        routing.bind(Binding("bench", f"q{number}", f"key{number}"))
    keys = [f"key{number}" for number in range(count)]
    rng.shuffle(keys)
    report.add("direct: routes, every key new", "routes/CPU-s", _rate(routing, keys)[0])
    _hot(report, "direct", routing, keys)


def _fanout(report: Report, count: int, rng: random.Random) -> None:
    routing = _with_exchange(ExchangeType.FANOUT, 100)
    for number in range(100):
        routing.bind(Binding("bench", f"q{number}"))
    report.add("fanout to 100: routes, every key new", "routes/CPU-s", _rate(routing, _numbers(count))[0])


def _hash(report: Report, count: int, rng: random.Random) -> None:
    routing = _with_exchange(ExchangeType.CONSISTENT_HASH, 100)
    for number in range(100):
        routing.bind(Binding("bench", f"q{number}", str(rng.randrange(1, 20))))
    keys = _numbers(ROUTES)
    report.add("hash among 100: routes, every key new, from the first", "routes/CPU-s", _rate(routing, keys)[0])
    keys = [f"other{key}" for key in keys]
    report.add("hash among 100: routes, every key new, later on", "routes/CPU-s", _rate(routing, keys)[0])


def _headers(report: Report, count: int, rng: random.Random) -> None:
    routing = _with_exchange(ExchangeType.HEADERS, count)
    for number in range(count):
        arguments = {"x-match": "all", "customer": number, "format": rng.choice(("pdf", "csv"))}
        routing.bind(Binding("bench", f"q{number}", arguments=arguments))
    tables = [{"customer": rng.randrange(count), "format": "pdf", "size": 3} for _ in range(ROUTES // 2)]
    begun = time.process_time()
    for table in tables:
        routing.route("bench", ("",), lambda table=table: table)  # type: ignore[misc]
    report.add(f"headers: routes over {count:,} bindings", "routes/CPU-s", len(tables) / (time.process_time() - begun))


def _celery_delay(report: Report, count: int, rng: random.Random) -> None:
    """Celery's 28 exchanges of delayed tasks: bit n of the delay decides if a message waits in queue n."""
    routing = Routing()
    for level in range(CELERY_LEVELS):
        routing.declare_queue(f"celery_delayed_{level}")
        routing.declare_exchange(Exchange(f"celery_delayed_{level}", ExchangeType.TOPIC))
    routing.declare_exchange(Exchange("celery_delayed_delivery", ExchangeType.TOPIC))
    for level in range(CELERY_LEVELS):
        here, ahead = f"celery_delayed_{level}", "*." * (CELERY_LEVELS - 1 - level)
        routing.bind(Binding(here, here, f"{ahead}1.#"))
        lower = f"celery_delayed_{level - 1}" if level else "celery_delayed_delivery"
        routing.bind(Binding(here, lower, f"{ahead}0.#", destination_kind=DestinationKind.EXCHANGE))
    routing.declare_queue("celery")
    routing.bind(Binding("celery_delayed_delivery", "celery", "#.celery"))
    first = f"celery_delayed_{CELERY_LEVELS - 1}"
    keys = _distinct([".".join(f"{rng.randrange(1 << 28):028b}") + f".celery{n}" for n in range(ROUTES // 10)])
    report.add("celery's delays: routes, every key new", "routes/CPU-s", _rate(routing, keys, first)[0])
    soon = [".".join(f"{rng.randrange(1 << 6):028b}") + f".celery{n}" for n in range(ROUTES // 10)]
    report.add("celery's delays up to 64 s (23 exchanges and more)", "routes/CPU-s", _rate(routing, soon, first)[0])


def _with_exchange(kind: ExchangeType, queues: int) -> Routing:
    routing = Routing()
    routing.declare_exchange(Exchange("bench", kind))
    for number in range(queues):
        routing.declare_queue(f"q{number}")
    return routing


def _rate(routing: Routing, keys: Sequence[str], exchange: str = "bench") -> tuple[float, int]:
    """Return (routes per CPU second, queues found)."""
    route = routing.route
    found = 0
    begun = time.process_time()
    for key in keys:
        found += len(route(exchange, (key,)))  # type: ignore[arg-type]
    rate = len(keys) / (time.process_time() - begun)
    if not found:
        raise BenchmarkError("no message found a queue")
    return rate, found


def _hot(report: Report, name: str, routing: Routing, keys: Sequence[str]) -> None:
    """Route a thousand keys again and again; the lists of keys are made before, as a listener has them."""
    hot = [(key,) for key in keys[:HOT_KEYS]]
    route = routing.route
    for each in hot:
        route("bench", each)
    rounds = 1 + 1_000_000 // len(hot)
    begun = time.process_time()
    for _ in range(rounds):
        for each in hot:
            route("bench", each)
    rate = rounds * len(hot) / (time.process_time() - begun)
    report.add(f"{name}: routes, {len(hot):,} keys again and again", "routes/CPU-s", rate, goal=Goal(1_000_000))


def _key(rng: random.Random) -> str:
    return ".".join(f"word{rng.randrange(VOCABULARY)}" for _ in range(rng.choice(WORDS)))


def _pattern(rng: random.Random) -> str:
    words = _key(rng).split(".")
    if rng.random() < WILDCARD_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            words[rng.randrange(len(words))] = rng.choice(("*", "*", "#"))
    return ".".join(words)


def _key_for(pattern: str, rng: random.Random) -> str:
    return ".".join(f"word{rng.randrange(VOCABULARY)}" if word in ("*", "#") else word for word in pattern.split("."))


def _distinct(keys: list[str]) -> list[str]:
    return list(dict.fromkeys(keys))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
