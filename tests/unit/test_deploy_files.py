"""What lies in deploy/: every flag, setting and port in it is one that the program has."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from entrepot.gateway.cli.app import app
from entrepot.gateway.settings import Settings, environment_name, known_keys, load_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PARTS_OF_KUSTOMIZE = ("kubernetes", "kubernetes/replicas", "kubernetes/tls", "kubernetes-single")
DEFAULTS = Settings()
PORTS = {
    "mqtt": DEFAULTS.mqtt.port,
    "amqp": DEFAULTS.amqp.port,
    "grpc": DEFAULTS.grpc.port,
    "http": DEFAULTS.http.port,
    "broker": DEFAULTS.broker.port,
    "nameserver": DEFAULTS.nameserver.port,
}
DOORS = ["mqtt", "amqp", "grpc", "http"]
ROLE_PORTS = {"broker": ["broker"], "nameserver": ["nameserver"], "gateway": DOORS}
ADMIN = environment_name("security.initial_admin")
PASSWORD = environment_name("security.initial_admin_password")
SECRET, CLUSTER = environment_name("cluster.secret"), "entrepot-cluster/secret"


def check_command(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command line of ours, read by the real parser.  Raises what that says."""
    command: Any = typer.main.get_command(app)
    name = ""
    while hasattr(command, "get_command"):
        name, *arguments = arguments
        command = command.get_command(typer.Context(command), name)
    context = command.make_context(name, arguments)
    for assignment in context.params.get("set_") or []:
        assert assignment.partition("=")[0] in known_keys()
    return dict(context.params)


def check_environment(variables: dict[str, str]) -> Settings:
    """Settings out of variables as the process would take them."""
    assert set(variables) <= {*map(environment_name, known_keys()), "ENTREPOT_PING", "PATH"}, variables
    return load_settings(environ=variables).settings


def environment_file(path: Path) -> dict[str, str]:
    """Variables of a file as systemd reads it: a value may stand in single quotes."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = (line.split("=", 1) for line in lines)
    return {name: value[1:-1] if value.startswith("'") and value.endswith("'") else value for name, value in pairs}


# -- systemd -----------------------------------------------------------------------------------------------------------


def unit(path: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=True, comment_prefixes="#")
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(path.read_text())
    return parsed


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_its_role_and_stops_it_well(path: Path) -> None:
    service = unit(path)["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/opt/entrepot/bin/entrepot"
    params = check_command(arguments)
    assert arguments[0] == path.name.removeprefix("entrepot-").removesuffix(".service").removesuffix("@")
    config = "serve.toml" if arguments[0] == "serve" else "entrepot.toml"
    assert str(params["config"]) == f"/etc/entrepot/{config}"
    # every process of a control group would be told to stop else: the store's own child, and workers twice
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > DEFAULTS.server.drain_seconds
    assert service["Type"] == "notify" and int(service["WatchdogSec"]) >= 30
    # a broker reads its log before it is ready, and a gateway looks for brokers
    assert (service.get("TimeoutStartSec") == "infinity") is (arguments[0] in ("serve", "broker", "gateway"))
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (service["User"], service["ProtectSystem"], service["NoNewPrivileges"]) == ("entrepot", "strict", "yes")
    assert int(service["LimitNOFILE"]) >= DEFAULTS.mqtt.max_connections
    for kept in re.findall(r"%S/(\S+)", service["ExecStart"]):
        assert kept.startswith(service["StateDirectory"]), "only the state directory can be written to"


def test_what_the_units_read_are_settings() -> None:
    loaded = load_settings(DEPLOY / "systemd" / "entrepot.toml").settings
    assert loaded.cluster.name_servers
    alone = load_settings(DEPLOY / "systemd" / "serve.toml").settings
    assert (alone.server.host, alone.security.initial_admin) == ("0.0.0.0", "admin")
    assert check_environment(environment_file(DEPLOY / "systemd" / "broker-0.env")).broker.advertise
    assert check_environment(environment_file(DEPLOY / "systemd" / "gateway.env")).cluster.workers == 2


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    names = []
    for path in UNITS:
        text = path.read_text().replace("/opt/entrepot/bin/entrepot", sys.executable)
        names.append(path.name.replace("@", "@broker-0"))
        (tmp_path / path.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    told = [line for line in done.stderr.splitlines() if "entrepot" in line]
    assert told == [], done.stderr


# -- containers --------------------------------------------------------------------------------------------------------


def dockerfile() -> str:
    return (DEPLOY / "docker" / "Dockerfile").read_text()


def test_the_image_is_whole_and_runs_as_nobody_special() -> None:
    text = dockerfile()
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["python:3.11-slim", "python:3.11-slim"]
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied_into_the_image()
    assert re.search(r"^USER 10001:10001$", text, re.M)
    variables = dict(re.findall(r"(ENTREPOT_\w+)=(\S+)", text.split("# What is asked")[0]))
    settings = check_environment(variables)
    assert settings.server.host == "0.0.0.0"
    assert re.search(rf"^VOLUME {settings.store.data_dir.parent}$", text, re.M)
    assert variables["ENTREPOT_PING"] == f"http://127.0.0.1:{PORTS['http']}"
    assert re.search(r"^EXPOSE (.*)$", text, re.M)[1].split() == [str(port) for port in PORTS.values()]  # type: ignore[index]
    for arguments in (["ping", variables["ENTREPOT_PING"]], ["serve"]):
        check_command(arguments)


def copied_into_the_image() -> set[str]:
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(), re.M)
    return {name for line in lines for name in line.split()}


def test_the_image_is_built_of_all_that_the_wheel_is_made_of() -> None:
    from setuptools import find_packages  # type: ignore[import-untyped]

    copied, project = copied_into_the_image(), tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = {"entrepot", *(name.split(".")[1] for name in find_packages(str(ROOT), include=("entrepot.*",)))}
    assert packages >= {"gateway", "broker", "spark_ingest"}
    named = {path.name for pattern in project.get("license-files", ()) for path in ROOT.glob(pattern)}
    named |= {project["readme"]} if "readme" in project else set()
    assert copied == packages | named | {"pyproject.toml", "setup.py", "requirements.lock"}
    assert all((ROOT / name).exists() for name in copied)


def filled_in(variables: dict[str, str], shell: dict[str, str]) -> dict[str, str]:
    """Variables as compose hands them on; raises KeyError where the shell has to have one."""

    def put(found: re.Match[str]) -> str:
        return shell.get(found[1], "") if found[2] == ":-" else shell[found[1]]

    return {key: re.sub(r"\$\{(\w+)(:[-?])[^}]*\}", put, value) for key, value in variables.items()}


def test_compose_on_one_machine() -> None:
    composed = yaml.safe_load((DEPLOY / "docker" / "compose.single.yaml").read_text())
    [service] = composed["services"].values()
    check_command(service["command"])
    assert service["command"] == ["serve"]
    assert (DEPLOY / "docker" / service["build"]["context"]).resolve() == ROOT
    assert [port.partition(":")[2] for port in service["ports"]] == [f"{PORTS[door]}:{PORTS[door]}" for door in DOORS]
    assert service["volumes"] == [f"{name}:/var/lib/entrepot" for name in composed["volumes"]]
    made_up = check_environment(filled_in(service["environment"], {})).security
    assert (made_up.initial_admin, made_up.initial_admin_password) == ("admin", None)
    given = check_environment(filled_in(service["environment"], {"ENTREPOT_ADMIN_PASSWORD": "one"})).security
    assert given.initial_admin_password is not None and given.initial_admin_password.get_secret_value() == "one"


SECRET_VOLUME = "secret:/etc/entrepot:ro"


def makes_its_secret(composed: dict[str, Any]) -> str:
    """The file of the cluster's secret, which a service makes before all others start; that one is taken out."""
    service = composed["services"].pop("secret")
    path = str(check_command(service["command"])["file"])
    assert service["command"][:2] == ["cluster", "secret"]
    assert "--keep" in service["command"], "another start makes no other one"
    assert service["volumes"] == ["secret:/etc/entrepot"]
    assert path.startswith("/etc/entrepot/") and "/etc/entrepot" in dockerfile(), "its user may write there"
    assert "secret" in composed["volumes"] and service["restart"] == "no"
    for name, other in composed["services"].items():
        if name.startswith("nameserver"):
            assert other["depends_on"] == {"secret": {"condition": "service_completed_successfully"}}
    return path


def test_compose_starts_two_of_each() -> None:
    composed = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    services = composed["services"]
    path = makes_its_secret(composed)
    assert sorted(services) == ["broker-0", "broker-1", "gateway-0", "gateway-1", "nameserver-0", "nameserver-1"]
    for name, service in services.items():
        role = name[:-2]
        assert SECRET_VOLUME in service["volumes"]
        assert service["environment"]["ENTREPOT__CLUSTER__SECRET_FILE"] == path
        params = check_command(service["command"])
        assert service["command"][0] == role
        assert (DEPLOY / "docker" / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        settings = check_environment(filled_in(service["environment"], {"ENTREPOT_ADMIN_PASSWORD": "one"}))
        assert (settings.security.initial_admin == "admin") is (role == "gateway"), "who may come in"
        assert settings.cluster.name_servers == [f"nameserver-{n}:{PORTS['nameserver']}" for n in (0, 1)]
        program, *ping = service["healthcheck"]["test"][1:]
        assert program == "entrepot"
        assert check_command(ping)["target"].endswith(f":{PORTS['http' if role == 'gateway' else role]}")
        assert set(service.get("depends_on", ())) <= services.keys() | {"secret"}
        if role == "broker":
            assert (params["name"], params["advertise"]) == (name, f"{name}:{PORTS['broker']}")
            assert service["volumes"] == [f"{name}:/var/lib/entrepot", SECRET_VOLUME]
            assert name in composed["volumes"]
        if role == "gateway":
            inside = [int(port.rpartition(":")[2]) for port in service["ports"]]
            assert inside == [PORTS[door] for door in DOORS]
            with pytest.raises(KeyError):
                filled_in(service["environment"], {})


# -- kubernetes --------------------------------------------------------------------------------------------------------


def objects() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        if path.name != "kustomization.yaml":
            yield from yaml.safe_load_all(path.read_text())


def named(kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in objects() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_kustomize_has_every_manifest() -> None:
    for part in PARTS_OF_KUSTOMIZE:
        kustomization = yaml.safe_load((DEPLOY / part / "kustomization.yaml").read_text())
        patches = (patch["path"] for patch in kustomization.get("patches", ()) if "path" in patch)
        listed = [*kustomization["resources"], *patches]
        there = [path.name for path in (DEPLOY / part).glob("*.yaml")]
        assert sorted([*listed, "kustomization.yaml"]) == sorted(there)


@pytest.mark.interop
def test_kubectl_puts_the_manifests_together(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not there")
    shutil.copytree(DEPLOY, tmp_path, dirs_exist_ok=True)
    kustomization = tmp_path / "kubernetes" / "kustomization.yaml"
    components = "# components:\n#   - replicas\n#   - tls"
    kustomization.write_text(
        kustomization.read_text().replace(components, components.replace("# ", "").replace("#", ""))
    )
    for part in ("kubernetes", "kubernetes-single"):
        done = subprocess.run(["kubectl", "kustomize", tmp_path / part], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made = list(yaml.safe_load_all(done.stdout))
        pods = [each["spec"]["template"]["spec"] for each in made if each["kind"] in ("StatefulSet", "Deployment")]
        assert len(pods) == (3 if part == "kubernetes" else 1)
        named = {each["metadata"]["name"] for each in made if each["kind"] in ("StatefulSet", "PodDisruptionBudget")}
        assert ("entrepot-broker-0" in named) is (part == "kubernetes"), "a group of replicas"
        assert "entrepot-broker" not in named, "in place of brokers without them"
        mounted = [mount["name"] for pod in pods for mount in pod["containers"][0]["volumeMounts"]]
        assert mounted.count("wire") == (3 if part == "kubernetes" else 0)


@pytest.mark.parametrize(
    ("kind", "role"), [("StatefulSet", "nameserver"), ("StatefulSet", "broker"), ("Deployment", "gateway")]
)
def test_pods_of_a_role(kind: str, role: str) -> None:
    spec = named(kind, f"entrepot-{role}")["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert spec["replicas"] == 2
    labels = spec["selector"]["matchLabels"]
    assert spec["template"]["metadata"]["labels"] == labels
    assert named("PodDisruptionBudget", f"entrepot-{role}")["spec"]["selector"]["matchLabels"] == labels
    service = named("Service", f"entrepot-{role}")["spec"]
    assert service["selector"] == labels

    params = check_command(container["args"])
    assert container["args"][0] == role
    ports = [PORTS[door] for door in ROLE_PORTS[role]]
    assert [port["containerPort"] for port in container["ports"]] == ports
    assert [port["port"] for port in service["ports"]] == ports
    flags = [f"{door}_port" for door in DOORS] if role == "gateway" else ["port"]
    assert [params[flag] for flag in flags] == ports

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']} " in dockerfile()
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert pod["terminationGracePeriodSeconds"] > DEFAULTS.server.drain_seconds
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[name]
        if role == "gateway":
            assert probe["httpGet"]["port"] == "http"
            assert probe["httpGet"]["path"] == ("/healthz" if name == "livenessProbe" else "/readyz")
        else:
            program, *ping = probe["exec"]["command"]
            asked = check_command(ping)
            assert (program, asked["target"]) == ("entrepot", f"127.0.0.1:{ports[0]}")
            assert asked["timeout"] < probe["timeoutSeconds"]


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    """Variables of a container; those from Secrets have the Secret's name and key."""
    found = {}
    for variable in container["env"]:
        secret = variable.get("valueFrom", {}).get("secretKeyRef")
        found[variable["name"]] = variable["value"] if secret is None else f"{secret['name']}/{secret['key']}"
    return found


def test_the_first_user_comes_from_a_secret() -> None:
    gateway = named("Deployment", "entrepot-gateway")["spec"]["template"]["spec"]["containers"][0]
    check_environment(environment_of(gateway))
    assert environment_of(gateway) == {ADMIN: "admin", PASSWORD: "entrepot-admin/password", SECRET: CLUSTER}
    assert "create secret generic entrepot-admin --from-literal=password=" in (ROOT / "docs/deployment.md").read_text()


def test_every_part_in_kubernetes_has_the_cluster_s_secret() -> None:
    pods = [each for each in objects() if each["kind"] in ("StatefulSet", "Deployment")]
    assert len(pods) == 3
    for each in pods:
        variables = each["spec"]["template"]["spec"]["containers"][0]["env"]
        [found] = [variable["valueFrom"]["secretKeyRef"] for variable in variables if variable["name"] == SECRET]
        assert f"{found['name']}/{found['key']}" == CLUSTER
    assert "create secret generic entrepot-cluster --from-literal=secret=" in (ROOT / "docs/deployment.md").read_text()


def test_one_pod_has_it_all() -> None:
    service, pods = yaml.safe_load_all((DEPLOY / "kubernetes-single" / "entrepot.yaml").read_text())
    [container] = pods["spec"]["template"]["spec"]["containers"]
    params = check_command(container["args"])
    assert (container["args"][0], pods["spec"]["replicas"]) == ("serve", 1)
    ports = [PORTS[door] for door in DOORS]
    assert [port["containerPort"] for port in container["ports"]] == ports
    assert [port["port"] for port in service["spec"]["ports"]] == ports
    assert [params[f"{door}_port"] for door in DOORS] == ports
    assert service["spec"]["selector"] == pods["spec"]["template"]["metadata"]["labels"]
    assert check_environment(environment_of(container)).server.host == "0.0.0.0"
    [data] = [mount for mount in container["volumeMounts"] if mount["name"] == "data"]
    assert params["data_dir"].is_relative_to(data["mountPath"])
    assert pods["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"


@pytest.mark.parametrize(
    ("role", "callers"), [("nameserver", ["broker", "gateway"]), ("broker", ["gateway"]), ("gateway", None)]
)
def test_only_parts_reach_parts(role: str, callers: list[str] | None) -> None:
    policy = named("NetworkPolicy", f"entrepot-{role}")["spec"]
    kind = "Deployment" if role == "gateway" else "StatefulSet"
    assert policy["podSelector"] == named(kind, f"entrepot-{role}")["spec"]["selector"]
    [rule] = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == [PORTS[door] for door in ROLE_PORTS[role]]
    selected = [each["podSelector"]["matchLabels"] for each in rule.get("from", ())] or None
    label = "app.kubernetes.io/component"
    assert (None if selected is None else [labels[label] for labels in selected]) == callers


def test_brokers_are_known_by_the_names_of_their_pods() -> None:
    spec = named("StatefulSet", "entrepot-broker")["spec"]
    container = spec["template"]["spec"]["containers"][0]
    params = check_command(container["args"])
    assert params["name"] == "$(POD_NAME)"
    assert params["advertise"] == f"$(POD_NAME).{spec['serviceName']}.$(POD_NAMESPACE).svc:{PORTS['broker']}"
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "data"]
    assert params["data_dir"].is_relative_to(mount["mountPath"])
    assert spec["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert named("Service", spec["serviceName"])["spec"]["clusterIP"] == "None"


def test_name_servers_are_where_everybody_looks_for_them() -> None:
    settings = check_environment(named("ConfigMap", "entrepot")["data"])
    spec = named("StatefulSet", "entrepot-nameserver")["spec"]
    namespace = named("ConfigMap", "entrepot")["metadata"]["namespace"]
    wanted = [
        f"entrepot-nameserver-{n}.{spec['serviceName']}.{namespace}.svc:{PORTS['nameserver']}"
        for n in range(spec["replicas"])
    ]
    assert settings.cluster.name_servers == wanted
