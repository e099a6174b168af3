"""Entrepôt where it is not a checkout: the wheel, and the steps of the image, from a folder that is not ours."""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
BUILD, FINAL = re.split(r"^FROM .+$", DOCKERFILE, flags=re.M)[1:]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("ENTREPOT", "PYTHON"))}
ROOMS = ("domain", "protocols", "broker", "store_client", "gateway", "spark_ingest")


def copy_as_the_image_does(target: Path) -> Path:
    """What the COPY lines of the image's first stage bring."""
    target.mkdir()
    for line in re.findall(r"^COPY (.+)$", BUILD, re.M):
        *sources, place = line.split()
        for source in sources:
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(ROOT / source, target / place, symlinks=True, ignore=ignored)
            else:
                shutil.copy(ROOT / source, target / place)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of what is copied into the image and of nothing else."""
    directory = tmp_path_factory.mktemp("wheel")
    source = copy_as_the_image_does(directory / "src")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*command, "--wheel-dir", directory, source], check=True, cwd=directory, env=ENVIRONMENT)
    [made] = directory.glob("*.whl")
    return made


@contextmanager
def served(command: list[str], directory: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """`entrepot serve` in a folder, until it is ready; told to stop at the end.  Yields where its doors are."""
    ready, log = directory / "ready.json", directory / "log"
    flags = ["--free-ports", "--ready-file", str(ready)]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *flags], cwd=directory, env=environment, stdout=output, stderr=output)
        try:
            wait_until(lambda: ready.exists() or process.poll() is not None, log.read_text, 2 * PATIENCE_SECONDS)
            assert ready.exists(), log.read_text()
            yield orjson.loads(ready.read_bytes())
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def test_the_wheel_is_whole_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        [metadata] = [email.message_from_bytes(packed.read(name)) for name in names if name.endswith("/METADATA")]
    sources = {f"entrepot/{path.relative_to(ROOT)}" for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert sources <= names
    page = ROOT / "gateway" / "http" / "dashboard" / "page"
    assert {f"entrepot/{path.relative_to(ROOT)}" for path in page.rglob("*.*")} <= names
    assert {name.partition("/")[0] for name in names if name.endswith(".py")} == {"entrepot", "pyspark_entrepot"}
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "# Entrepôt" in metadata.get_payload(decode=True).decode()  # type: ignore[union-attr]
    for door in ("MQTT", "AMQP", "RocketMQ", "CloudEvents", "HTTP"):
        assert door in metadata["Summary"]


def test_the_wheel_serves_from_a_foreign_folder(wheel: Path, tmp_path: Path) -> None:
    venv, foreign = tmp_path / "venv", tmp_path / "elsewhere"
    foreign.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # a .pth in there is not read
    install: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin" / "python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
    ]
    subprocess.run([*install, "--no-index", wheel], check=True, env=ENVIRONMENT)
    entrepot = venv / "bin" / "entrepot"
    asked = "import sys; from entrepot import gateway; print(gateway.__file__)"
    where = subprocess.check_output([venv / "bin" / "python", "-c", asked], cwd=foreign, env=ENVIRONMENT)
    assert where.decode().startswith(str(venv)), "the checkout is not what is tried"
    with served([str(entrepot), "serve"], foreign, ENVIRONMENT) as doors:
        assert doors.keys() == {"mqtt", "amqp", "grpc", "http"}
        subprocess.run([entrepot, "ping", f"http://{doors['http']}"], cwd=foreign, env=ENVIRONMENT, check=True)
    assert (foreign / "data" / "store.json").is_file()


def steps(stage: str, places: dict[str, Path]) -> list[list[str]]:
    """The commands of a stage's RUN lines, with places of the image as folders here."""
    lines = re.findall(r"^RUN ((?:.*\\\n)*.+)$", stage, re.M)
    commands = [command for line in lines for command in line.replace("\\\n", " ").split("&&")]
    for place, folder in places.items():
        commands = [re.sub(rf"(?<![\w/]){place}\b", str(folder), command) for command in commands]
    return [shlex.split(command) for command in commands]


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_steps_of_the_image(tmp_path: Path) -> None:
    """All that the Dockerfile does but for its user, without a container engine."""
    source, state = copy_as_the_image_does(tmp_path / "src"), tmp_path / "state"
    state.mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "base"], check=True)
    places = {"/wheels": tmp_path / "wheels", "/opt/entrepot": tmp_path / "opt", "/var/lib/entrepot": state}
    base = {**ENVIRONMENT, "PATH": f"{tmp_path / 'base' / 'bin'}:{ENVIRONMENT['PATH']}"}
    for command in steps(BUILD, places):
        subprocess.run(command, cwd=source, env=base, check=True)
    for command in steps(FINAL, places):
        if command[0] not in ("groupadd", "useradd", "install"):  # these make the user and its folder
            subprocess.run(command, cwd=tmp_path, env=base, check=True)
    variables = dict(re.findall(r"(ENTREPOT_\w+)=(\S+)", FINAL.partition("USER")[0]))
    data = {"ENTREPOT__STORE__DATA_DIR": str(state / "data")}
    environment = {**ENVIRONMENT, **variables, **data, "PATH": f"{tmp_path / 'opt' / 'bin'}:{ENVIRONMENT['PATH']}"}
    entrypoint, command = (
        orjson.loads(re.findall(rf"^{word} (.+)$", FINAL, re.M)[0]) for word in ("ENTRYPOINT", "CMD")
    )
    program = shutil.which(entrypoint[0], path=environment["PATH"])
    assert program == str(tmp_path / "opt" / "bin" / "entrepot")
    health = orjson.loads(re.findall(r"^HEALTHCHECK .* CMD (.+)$", FINAL, re.M)[0])
    with served([program, *command], state, environment) as doors:
        asked = {**environment, "ENTREPOT_PING": f"http://127.0.0.1:{doors['http'].rpartition(':')[2]}"}
        subprocess.run(health, env=asked, check=True)
