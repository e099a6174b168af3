"""A celery application: its tasks, how it is configured, and its worker as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from celery import Celery, Task  # type: ignore[import-untyped]

from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROOT: Final = Path(__file__).resolve().parents[3]
START_SECONDS: Final = 2 * PATIENCE_SECONDS
ANSWER_SECONDS: Final = 2 * PATIENCE_SECONDS


@dataclass(frozen=True)
class Deployment:
    """Where an application finds its broker and its results, and the name of its queue."""

    broker: str
    results: str
    queue: str
    queue_type: str = "classic"

    def environment(self) -> dict[str, str]:
        return {f"CELERY_APP_{name.upper()}": value for name, value in asdict(self).items()}

    @classmethod
    def of_environment(cls) -> Deployment:
        names = cls.__dataclass_fields__
        return cls(**{name: os.environ[f"CELERY_APP_{name.upper()}"] for name in names})


def add(x: int, y: int) -> int:
    return x + y


def total(numbers: list[int]) -> int:
    return sum(numbers)


def when() -> float:
    """The time at which it runs."""
    return time.time()


def flaky(self: Any, failures: int) -> int:
    """Fails so many times, and is retried; how often it was."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.1, max_retries=failures)
    return int(self.request.retries)


def note(self: Any, path: str, wait_for: str) -> str:
    """Writes a line, and ends when a file is there."""
    with Path(path).open("a") as lines:
        lines.write(f"{'again' if self.request.delivery_info['redelivered'] else 'first'}\n")
    wait_until(Path(wait_for).exists, f"{wait_for} is there", ANSWER_SECONDS)
    return "done"


def application(deployment: Deployment) -> Celery:
    app = Celery("tests", broker=deployment.broker, backend=deployment.results)
    app.conf.update(
        task_default_queue=deployment.queue,
        task_default_queue_type=deployment.queue_type,
        broker_connection_retry_on_startup=True,
        broker_heartbeat=0,
        broker_connection_timeout=PATIENCE_SECONDS,
        result_expires=3600,
        worker_hijack_root_logger=False,
    )
    for plain in (add, total, when):
        app.task(plain, name=f"tests.{plain.__name__}")
    app.task(flaky, name="tests.flaky", bind=True)
    app.task(note, name="tests.note", bind=True, acks_late=True)
    return app


def task(app: Celery, function: Any) -> Task:
    """The task of an application that a function of this module is."""
    return app.tasks[f"tests.{function.__name__}"]


class Worker:
    """`celery worker` in a process of its own."""

    def __init__(self, deployment: Deployment, directory: Path, name: str = "worker") -> None:
        self._deployment = deployment
        self._log = directory / f"{name}.log"
        self.name = f"{name}-{deployment.queue}@localhost"
        self.app = application(deployment)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.app.close()
        if kind is not None:
            print(self.log_text()[-6000:])

    def start(self) -> None:
        """Start, and wait until it answers to a ping."""
        command = [sys.executable, "-m", "celery", "-A", "tests.support.amqp.celery_app:worker_application", "worker"]
        command += ["-n", self.name, "-P", "threads", "-c", "4", "-l", "info"]
        environment = {**os.environ, **self._deployment.environment(), "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._log.parent, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(self._answers, self.log_text, START_SECONDS)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the worker ended:\n{self.log_text()}"
        return self.ping() == [{self.name: {"ok": "pong"}}]

    def ping(self) -> list[Any]:
        return self.app.control.ping(destination=[self.name], timeout=2, limit=1)

    def inspected(self, what: str) -> Any:
        """What the worker says about itself."""
        found = getattr(self.app.control.inspect(destination=[self.name], timeout=5, limit=1), what)()
        return (found or {}).get(self.name, [])


def __getattr__(name: str) -> Any:
    """`worker_application`, only in the process of a worker, which has the environment for it."""
    if name == "worker_application":
        return application(Deployment.of_environment())
    raise AttributeError(name)
