"""One run of a suite against a running server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from tests.conformance.amqp import fetched, outcome, servers
from tests.conformance.amqp.outcome import Outcome
from tests.conformance.amqp.servers import Ports
from tests.conformance.amqp.suites import Source, Suite

PLUGINS = Path(__file__).resolve().parent / "plugins"
TEST_SECONDS = 300
"""Then a test that hangs is ended, and the suite goes on."""


def play(suite: Suite, ports: Ports, directory: Path, tests: Sequence[str] = ()) -> Outcome:
    """Run a suite, or only some tests of it.  What it prints is in `directory`, as `output`."""
    started = time.monotonic()
    if suite.source is Source.GO:
        played = _play_go(suite, ports, directory, tests)
    else:
        played = _play_pytest(suite, ports, directory, tests)
    played.seconds = round(time.monotonic() - started, 1)
    return played


def _play_pytest(suite: Suite, ports: Ports, directory: Path, tests: Sequence[str]) -> Outcome:
    written = directory / "junit.xml"
    written.unlink(missing_ok=True)
    command = [str(fetched.PYTHON), "-m", "pytest", "-q", f"--timeout={TEST_SECONDS}", f"--junitxml={written}"]
    command += ["-p", "loopback_only", "-p", "no:cacheprovider", "-o", "junit_family=xunit2"]
    if suite.plugin:
        command += ["-p", suite.plugin]
    for name in suite.left_out:
        command += ["--deselect", name]
    environment = {
        **_environment(),
        "PYTHONPATH": str(PLUGINS),
        "ENTREPOT_SUITE_AMQP_PORT": str(ports.amqp),
        "ENTREPOT_SUITE_AMQPS_PORT": str(ports.amqps),
        "RABBITMQ_HOST": "127.0.0.1",
        "RABBITMQ_5672_TCP": str(ports.amqp),
        "RABBITMQ_5671_TCP": str(ports.amqps),
    }
    with servers.redis(directory) if suite.needs_redis else nullcontext(0) as redis_port:
        if suite.needs_redis:
            environment |= _for_celery(ports, redis_port)
        _run([*command, *(tests or suite.tests)], environment, suite, directory)
    if not written.exists():
        return Outcome(failed={"the whole suite": "it did not end"})
    return outcome.of_junit(written)


def _for_celery(ports: Ports, redis_port: int) -> dict[str, str]:
    return {
        "TEST_BROKER": f"pyamqp://guest:guest@127.0.0.1:{ports.amqp}//",
        "TEST_BACKEND": f"redis://127.0.0.1:{redis_port}",
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(redis_port),
    }


def _play_go(suite: Suite, ports: Ports, directory: Path, tests: Sequence[str]) -> Outcome:
    command = ["go", "test", "-json", "-count=1", "-tags", "integration", f"-timeout={suite.limit_seconds}s"]
    command += ["-run", "|".join(tests)] if tests else []
    command += ["-skip", "|".join(f"^{name}$" for name in suite.left_out)] if suite.left_out else []
    environment = {
        **_environment(),
        "GOCACHE": str(fetched.DIRECTORY / "go-cache"),
        **{name: os.environ[name] for name in ("GOPATH", "GOPROXY", "GOFLAGS", "GONOSUMDB") if name in os.environ},
        "AMQP_URL": f"amqp://guest:guest@127.0.0.1:{ports.amqp}/",
    }
    _run([*command, "."], environment, suite, directory)
    return outcome.of_go((directory / "output").read_text(errors="replace").splitlines())


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def _run(command: Sequence[str], environment: dict[str, str], suite: Suite, directory: Path) -> None:
    """Run to the end, or to the suite's limit."""
    with (directory / "output").open("wb") as printed:
        running = subprocess.Popen(
            command,
            cwd=fetched.directory(suite),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            running.wait(suite.limit_seconds)
        except subprocess.TimeoutExpired:
            pass  # what has not ended counts as failed
        finally:  # also where the runner is ended: a suite left behind would write into the output of the next
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
