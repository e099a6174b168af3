"""The store on other machines: brokers over the wire, found by routes."""

from store_client.remote.cluster import Cluster
from store_client.remote.opening import RemoteSettings, open_remote
from store_client.remote.store import RemoteStore
from store_client.remote.tails import Tails

__all__ = ["Cluster", "RemoteSettings", "RemoteStore", "Tails", "open_remote"]
