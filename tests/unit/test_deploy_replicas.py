"""What lies in deploy/ of broker groups: settings and probes are the program's, and a group's files fit together."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from entrepot.domain.replication.confirmation_rule import RuleKind, parse_rule
from entrepot.gateway.settings import ClusterSettings, Settings
from tests.unit.test_deploy_files import (
    DEPLOY,
    PORTS,
    ROOT,
    SECRET_VOLUME,
    check_command,
    check_environment,
    environment_file,
    filled_in,
    makes_its_secret,
    named,
)

REPLICAS = DEPLOY / "kubernetes" / "replicas"
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"


def group_of(settings: Settings) -> dict[int, str]:
    """Addresses of a group's replicas, under a rule that lets one of them be away."""
    broker = settings.broker
    rule = parse_rule(broker.rule, len(broker.replicas), broker.min_in_sync)
    assert (rule.kind, rule.required, rule.replicas) == (RuleKind.QUORUM, 2, 3)
    assert broker.replica_id in broker.group_addresses()
    return broker.group_addresses()


def group_of_pods(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The StatefulSet of a group, and its budget."""
    pods, budget = yaml.safe_load_all(text)
    assert (pods["kind"], budget["kind"]) == ("StatefulSet", "PodDisruptionBudget")
    return pods, budget


def broker_0() -> tuple[dict[str, Any], dict[str, Any]]:
    return group_of_pods((REPLICAS / "broker-0.yaml").read_text())


def environment_of_pod(pods: dict[str, Any], ordinal: int) -> dict[str, str]:
    """Variables as the kubelet makes them for a pod."""
    name, namespace = f"{pods['metadata']['name']}-{ordinal}", pods["metadata"]["namespace"]
    fields = {"metadata.name": name, "metadata.namespace": namespace, POD_INDEX: str(ordinal)}
    found: dict[str, str] = {}
    for each in pods["spec"]["template"]["spec"]["containers"][0]["env"]:
        place = each.get("valueFrom", {})
        if secret := place.get("secretKeyRef"):
            found[each["name"]] = f"what is in {secret['name']}/{secret['key']}"
            continue
        value = each["value"] if "value" in each else fields[place["fieldRef"]["fieldPath"]]
        found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda known: found[known[1]], value)
    return found


def test_each_pod_of_a_group_is_the_replica_of_its_number() -> None:
    pods, _ = broker_0()
    spec, [container] = pods["spec"], pods["spec"]["template"]["spec"]["containers"]
    params = check_command(container["args"])
    assert params["name"] == pods["metadata"]["name"], "the number at its end is the broker's"
    first, count = spec["ordinals"]["start"], spec["replicas"]
    for ordinal in range(first, first + count):
        variables = environment_of_pod(pods, ordinal)
        own = {name: variables.pop(name) for name in ("POD_NAME", "POD_NAMESPACE")}
        settings = check_environment(variables)
        addresses = group_of(settings)
        assert settings.broker.replica_id == ordinal
        assert sorted(addresses) == list(range(first, first + count))
        advertised = re.sub(r"\$\((\w+)\)", lambda known: own[known[1]], params["advertise"])  # noqa: B023
        assert addresses[ordinal] == advertised
        assert advertised == f"{own['POD_NAME']}.{spec['serviceName']}.{own['POD_NAMESPACE']}.svc:{PORTS['broker']}"


def test_a_group_is_found_by_its_pods_before_they_are_ready() -> None:
    """A first master is elected when all have answered each other; nobody is ready until then."""
    pods, _ = broker_0()
    service = named("Service", pods["spec"]["serviceName"])["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert service["selector"].items() <= pods["spec"]["template"]["metadata"]["labels"].items()
    assert pods["spec"]["podManagementPolicy"] == "Parallel"


def test_no_two_replicas_of_a_group_go_together() -> None:
    pods, budget = broker_0()
    pod, labels = pods["spec"]["template"], pods["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == labels
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]["matchLabels"]) == (1, labels)
    [apart] = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (apart["topologyKey"], apart["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", labels)
    [spread] = pod["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["labelSelector"]["matchLabels"]) == ("topology.kubernetes.io/zone", labels)


def test_alive_is_who_answers_and_ready_is_who_is_in_sync() -> None:
    pods, _ = broker_0()
    [container] = pods["spec"]["template"]["spec"]["containers"]
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        program, *ping = container[name]["exec"]["command"]
        asked = check_command(ping)
        assert (program, asked["target"]) == ("entrepot", f"127.0.0.1:{PORTS['broker']}")
        assert asked["timeout"] < container[name]["timeoutSeconds"]
        assert (asked["ready"], asked["role"]) == (name == "readinessProbe", None)


def test_a_replica_s_pod_is_else_a_broker_s() -> None:
    """Users, limits and volumes are the same: a change of one is a change of both."""
    replica = broker_0()[0]["spec"]
    broker = named("StatefulSet", "entrepot-broker")["spec"]
    assert replica["volumeClaimTemplates"] == broker["volumeClaimTemplates"]
    [one], [other] = (each["template"]["spec"]["containers"] for each in (replica, broker))
    for key in ("image", "ports", "securityContext", "envFrom", "resources", "volumeMounts"):
        assert one[key] == other[key]
    for key in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken", "volumes"):
        assert replica["template"]["spec"][key] == broker["template"]["spec"][key]


def test_replicas_reach_each_other() -> None:
    policy, _ = yaml.safe_load_all((REPLICAS / "networkpolicy.yaml").read_text())
    selector = policy["spec"]["podSelector"]
    assert selector == named("NetworkPolicy", "entrepot-broker")["spec"]["podSelector"]
    assert selector["matchLabels"].items() <= broker_0()[0]["spec"]["selector"]["matchLabels"].items()
    [rule] = policy["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": selector}]
    assert [port["port"] for port in rule["ports"]] == [PORTS["broker"]]


def test_controllers_reach_each_other() -> None:
    _, policy = yaml.safe_load_all((REPLICAS / "networkpolicy.yaml").read_text())
    selector = policy["spec"]["podSelector"]
    assert selector == named("NetworkPolicy", "entrepot-nameserver")["spec"]["podSelector"]
    [rule] = policy["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": selector}]
    assert [port["port"] for port in rule["ports"]] == [PORTS["nameserver"]]


def test_each_name_server_of_groups_is_the_controller_of_its_number() -> None:
    config, pods = (yaml.safe_load((REPLICAS / name).read_text()) for name in ("config.yaml", "nameserver.yaml"))
    told = check_environment(named("ConfigMap", "entrepot")["data"] | config["data"]).cluster
    base = named("StatefulSet", "entrepot-nameserver")["spec"]
    names = [f"{pods['metadata']['name']}-{n}.{base['serviceName']}.entrepot.svc" for n in (1, 2, 3)]
    assert told.name_servers == [f"{name}:{PORTS['nameserver']}" for name in names]
    assert told.controller_addresses() == dict(enumerate(told.name_servers, 1))
    assert (pods["spec"]["ordinals"]["start"], pods["spec"]["replicas"]) == (1, len(names))
    [container] = pods["spec"]["template"]["spec"]["containers"]
    assert container["name"] == base["template"]["spec"]["containers"][0]["name"]
    settings = check_environment(environment_of_pod(pods, 2))
    [mount] = container["volumeMounts"]
    assert (settings.controller.id, settings.controller.data_dir.parent) == (2, Path(mount["mountPath"]))
    assert pods["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == mount["name"]


def test_what_kustomize_makes_of_it(tmp_path: Path) -> None:
    """The patches fit the files that they are for."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not there")
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    file = tmp_path / "kubernetes" / "kustomization.yaml"
    file.write_text(file.read_text() + "\ncomponents: [replicas, tls]\n")
    command = ["kubectl", "kustomize", str(file.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    made = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    pods = made["StatefulSet", "entrepot-nameserver"]["spec"]
    [container] = pods["template"]["spec"]["containers"]
    assert check_command(container["args"])["port"] == PORTS["nameserver"]
    assert {each["name"] for each in container["volumeMounts"]} == {"data", "tmp", "wire"}
    assert (pods["replicas"], ("StatefulSet", "entrepot-broker") in made) == (3, False)


def test_groups_are_in_place_of_brokers_alone() -> None:
    made = yaml.safe_load((REPLICAS / "kustomization.yaml").read_text())
    patches = [each for each in made["patches"] if "patch" in each]
    assert [each["path"] for each in made["patches"] if "path" in each] == ["config.yaml", "nameserver.yaml"]
    removed = [yaml.safe_load(each["patch"]) for each in patches]
    for each, patch in zip(removed, patches, strict=True):
        assert each["$patch"] == "delete"
        assert patch["target"] == {"kind": each["kind"], "name": each["metadata"]["name"]}
        assert named(each["kind"], each["metadata"]["name"])
    assert [each["kind"] for each in removed] == ["StatefulSet", "PodDisruptionBudget"]


def test_another_group_is_the_same_with_another_number() -> None:
    said = re.search(r"sed (\S+) broker-0.yaml > broker-1.yaml", (REPLICAS / "kustomization.yaml").read_text())
    assert said is not None and said[1] == "s/broker-0/broker-1/g"
    text = (REPLICAS / "broker-0.yaml").read_text()
    pods, budget = group_of_pods(text.replace("broker-0", "broker-1"))
    assert pods["metadata"]["name"] == budget["metadata"]["name"] == "entrepot-broker-1"
    assert budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "broker-1"
    variables = {key: value for key, value in environment_of_pod(pods, 3).items() if key.startswith("ENTREPOT__")}
    address = group_of(check_environment(variables))[3]
    assert address == f"entrepot-broker-1-3.entrepot-broker.entrepot.svc:{PORTS['broker']}"


@pytest.mark.parametrize("replica", [1, 2, 3])
def test_compose_starts_a_group(replica: int) -> None:
    composed = yaml.safe_load((DEPLOY / "docker" / "compose.replicas.yaml").read_text())
    services, name = composed["services"], f"broker-0-{replica}"
    service = services[name]
    params, settings = check_command(service["command"]), check_environment(service["environment"])
    addresses = group_of(settings)
    assert (service["command"][0], params["name"], settings.broker.replica_id) == ("broker", "broker-0", replica)
    assert sorted(addresses) == [1, 2, 3]
    assert addresses[replica] == params["advertise"] == f"{name}:{PORTS['broker']}"
    assert service["volumes"] == [f"{name}:/var/lib/entrepot", SECRET_VOLUME]
    assert name in composed["volumes"]
    program, *ping = service["healthcheck"]["test"][1:]
    asked = check_command(ping)
    assert (program, asked["target"], asked["ready"]) == ("entrepot", f"127.0.0.1:{PORTS['broker']}", True)


def test_compose_starts_what_a_group_needs() -> None:
    composed = yaml.safe_load((DEPLOY / "docker" / "compose.replicas.yaml").read_text())
    services = composed["services"]
    name_servers = [f"nameserver-{n}" for n in range(3)]
    path = makes_its_secret(composed)
    assert sorted(services) == ["broker-0-1", "broker-0-2", "broker-0-3", "gateway-0", *name_servers]
    for service in services.values():
        check_command(service["command"])
        check_command(service["healthcheck"]["test"][2:])
        settings = check_environment(filled_in(service["environment"], {"ENTREPOT_ADMIN_PASSWORD": "one"}))
        addresses = [f"{name}:{PORTS['nameserver']}" for name in name_servers]
        assert settings.cluster.name_servers == addresses
        assert settings.cluster.controller_addresses() == dict(enumerate(addresses, 1))
        assert (DEPLOY / "docker" / service["build"]["context"]).resolve() == ROOT
        assert set(service.get("depends_on", ())) <= services.keys() | {"secret"}
        assert SECRET_VOLUME in service["volumes"]
        assert str(settings.cluster.secret_file) == path
    for number, name in enumerate(name_servers, 1):
        settings = check_environment(services[name]["environment"])
        assert settings.controller.id == number
        assert services[name]["volumes"] == [f"controller-{number}:/var/lib/entrepot", SECRET_VOLUME]
        assert f"controller-{number}" in composed["volumes"]
    assert services["gateway-0"]["ports"] == [
        f"127.0.0.1:{PORTS[door]}:{PORTS[door]}" for door in ("mqtt", "amqp", "grpc", "http")
    ]


def test_systemd_reads_a_controller_s_settings() -> None:
    for name in ("nameserver.controller-1.env", "controller-1.env"):
        assert check_environment(environment_file(DEPLOY / "systemd" / name)).controller.id == 1
    text = (DEPLOY / "systemd" / "entrepot.toml").read_text()
    said = re.search(r"^# (controllers = .+)$", text, re.M)
    assert said is not None
    controllers = tomllib.loads(said[1])["controllers"]
    assert sorted(ClusterSettings(controllers=controllers).controller_addresses()) == [1, 2, 3]


def test_systemd_reads_a_replica_s_settings() -> None:
    settings = check_environment(environment_file(DEPLOY / "systemd" / "broker-0.replica-1.env"))
    assert group_of(settings)[1] == settings.broker.advertise
    assert settings.broker.replica_id == 1
