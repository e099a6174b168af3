"""The sockets under `protocols.wire`: the connecting end and the listening end.

They are below the store's clients, because brokers connect too (to name servers). Nothing here knows the engine:
importing it loads no store.
"""
