"""Shovel: messages of another broker's queues carried into the queues of the same names at this one.

It is a client of both sides (aio-pika) and keeps nothing: it may be killed at any time and begun again.
"""
