"""The sockets under `protocols.remoting`: the end that connects, and the end that listens.

It stands here, below the store's clients, because brokers connect too (to name servers).  Nothing in it knows the
engine: who imports it loads no store.
"""
