"""TLS between the parts in Kubernetes: the files are where the settings say, and the certificate is for those asked."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from entrepot.broker.remoting.trust import WireTls
from entrepot.domain.cluster_trust import ClusterTrust
from tests.support.processes.certificates import TestAuthority
from tests.unit.test_deploy_files import DEPLOY, check_environment, named

TLS = DEPLOY / "kubernetes" / "tls"


def wire_certificate() -> dict[str, Any]:
    """What cert-manager is asked for."""
    documents = yaml.safe_load_all((TLS / "certificates.yaml").read_text())
    [spec] = [each["spec"] for each in documents if each["metadata"]["name"] == "entrepot-wire"]
    return dict(spec)


def test_the_files_are_where_the_settings_say() -> None:
    settings, patches = (yaml.safe_load((TLS / name).read_text()) for name in ("config.yaml", "pods.yaml"))
    files = check_environment(settings["data"]).cluster
    mount, volume = (
        next(each["value"] for each in patches if each["path"].endswith(end))
        for end in ("/volumeMounts/-", "/volumes/-")
    )
    assert mount["name"] == volume["name"]
    assert volume["secret"]["secretName"] == wire_certificate()["secretName"]
    shown = [files.tls_certificate, files.tls_key, files.tls_ca]
    assert [str(path) for path in shown] == [
        f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]


async def test_parts_take_the_certificate_for_the_names_by_which_they_connect(tmp_path: Path) -> None:
    authority, spec = TestAuthority(tmp_path), wire_certificate()
    pair = authority.issue("wire", *spec["dnsNames"], *spec["ipAddresses"])
    files = ClusterTrust(pair, pair, authority.file)
    shown, trusted = (WireTls(files, is_server=is_server).context for is_server in (True, False))
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=shown)
    port = listener.sockets[0].getsockname()[1]

    async def connect(name: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted, server_hostname=name)
        assert await reader.read() == b""
        writer.close()

    servers = check_environment(named("ConfigMap", "entrepot")["data"]).cluster.name_servers
    broker = named("StatefulSet", "entrepot-broker")["spec"]["template"]["spec"]["containers"][0]["args"][-1]
    broker = broker.replace("$(POD_NAME)", "entrepot-broker-1").replace("$(POD_NAMESPACE)", "entrepot")
    try:
        for address in (*servers, broker, "127.0.0.1:1"):  # the last: as probes ask
            await connect(address.rpartition(":")[0])
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect("entrepot-broker-1.elsewhere.entrepot.svc")
    finally:
        listener.close()
