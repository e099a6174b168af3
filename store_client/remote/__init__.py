"""The store on other machines: brokers over the wire, found by routes."""

from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.opening import RemoteSettings, open_remote
from entrepot.store_client.remote.store import RemoteStore
from entrepot.store_client.remote.tails import Tails

__all__ = ["Cluster", "RemoteSettings", "RemoteStore", "Tails", "open_remote"]
