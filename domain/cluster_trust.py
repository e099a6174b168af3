"""ClusterTrust: by what the parts of a cluster (brokers, name servers, controllers, gateways, jobs) know each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterTrust:
    """PEM files, and the cluster's secret.  `certificate` with `key`: shown to others.  `ca`: the authority of others'
    certificates; a server then asks clients for one.  `names`: those that clients' certificates may have, `*.` before
    one for a further label; empty: any.  `secret_file`: file of the secret, or of the key of one role; `secret`: its
    text instead.  `is_network_trusted`: whoever reaches a part may be believed."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    names: tuple[str, ...] = ()
    secret_file: Path | None = None
    secret: str = field(default="", repr=False)
    is_network_trusted: bool = False


NO_TRUST = ClusterTrust()
