"""A gateway in a program of your own: its operations below /mq, beside a route of yours.

uvicorn examples.embedded:app
curl -X POST localhost:8000/orders/42
curl -X POST "localhost:8000/mq/topics/orders/eventsubscriptions/billing:receive?maxWaitTime=1"
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from httpx2 import ASGITransport, AsyncClient

from entrepot.gateway.embedding import EmbeddedGateway

gateway = EmbeddedGateway({"amqp.enabled": False, "grpc.enabled": False, "mqtt.enabled": False})
app = FastAPI(title="A shop", lifespan=gateway.lifespan)
app.mount("/mq", gateway)


@app.post("/orders/{number}")
async def order(number: int, request: Request) -> dict[str, int]:
    """Take an order: it is an event, durable before the answer."""
    event = {"specversion": "1.0", "type": "ordered", "source": "/shop", "id": str(number), "data": {"number": number}}
    async with AsyncClient(transport=ASGITransport(gateway), base_url="http://localhost") as client:
        kind = {"content-type": "application/cloudevents+json"}
        answer = await client.post("/topics/orders:publish", json=event, headers=kind)
    answer.raise_for_status()
    return {"taken": number}
