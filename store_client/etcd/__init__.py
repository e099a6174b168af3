"""Key-values in etcd v3: shared by gateways in front of a cluster that cannot keep them."""

from __future__ import annotations

from entrepot.store_client.etcd.key_values import EtcdKeyValues
from entrepot.store_client.etcd.opening import open_etcd
from entrepot.store_client.etcd.settings import EtcdSettings

__all__ = ["EtcdKeyValues", "EtcdSettings", "open_etcd"]
