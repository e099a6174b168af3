"""Shovel: messages of another broker's queues carried into the queues of the same names here.

It is a client of both sides (aio-pika) without state: it may be killed at any time and begun again.
"""
