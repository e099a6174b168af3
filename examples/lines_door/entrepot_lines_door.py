"""A protocol of three lines: `LOGIN [user password]`, `PUB name text`, `QUIT`; answers are `OK` or `NO reason`."""

import asyncio

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.door.door import Counters, Door
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.door.shown import ConnectedClient
from entrepot.gateway.security.credentials import Credentials


class LinesDoor(Door):
    name = "lines"

    def __init__(self, parts: Parts) -> None:
        self.parts, self.published = parts, 0
        self.connected: dict[asyncio.StreamWriter, ConnectedClient] = {}
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self.parts.sockets[self.name], limit=64 << 10)

    async def stop_accepting(self, until: float) -> None:
        if self._server is not None:
            self._server.close()

    def say_goodbye(self) -> None:
        self._end(list(self.connected), "BYE")

    def counters(self) -> Counters:
        return {"entrepot_lines_publishes": ("Messages published as lines", lambda: self.published)}

    @property
    def connections(self) -> int:
        return len(self.connected)

    def clients(self) -> list[ConnectedClient]:
        return list(self.connected.values())

    async def disconnect(self, client: str, reason: str) -> bool:
        return self._end([writer for writer, each in self.connected.items() if each.client == client], f"BYE {reason}")

    def _end(self, writers: list[asyncio.StreamWriter], word: str) -> bool:
        for writer in writers:
            writer.write(f"{word}\n".encode())
            writer.close()
        return bool(writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("peername")[:2]
        here = ConnectedClient(f"{host}:{port}", address=f"{host}:{port}", since_ms=self.parts.clock.now_ms())
        self.connected[writer] = here
        principal: Principal | None = None
        try:
            while (line := (await reader.readline()).decode().split(maxsplit=2)) and line[0] != "QUIT":
                try:
                    if line[0] == "LOGIN":
                        principal = await self._login(host, *line[1:])
                        self.connected[writer] = here._replace(user=principal.name)
                    else:
                        await self._publish(principal, *line[1:])
                    writer.write(b"OK\n")
                except (EntrepotError, TypeError) as refusal:
                    writer.write(f"NO {refusal}\n".encode())
                await writer.drain()
        except (ConnectionError, ValueError):  # it left, or a line is too long or no text
            pass
        finally:
            del self.connected[writer]
            writer.close()

    async def _login(self, host: str, user: str | None = None, password: str = "") -> Principal:
        secret = None if user is None else password.strip().encode()
        return await self.parts.security.authenticate(Credentials(self.name, host, user, secret, listener=self.name))

    async def _publish(self, principal: Principal | None, name: str, text: str) -> None:
        if principal is None:
            raise EntrepotError(Code.UNAUTHORIZED, "LOGIN comes first")
        self.parts.security.check(principal, Action.PUB, ResourceType.TOPIC, name, self.name)
        topic, queue_id, filter_hash = self.parts.routes.of(name)
        message = Message(topic, text.strip().encode(), name, queue_id, filter_hash=filter_hash)
        message.message_id, message.born_time_ms = self.parts.sender.new_message_id(), self.parts.clock.now_ms()
        for refusal in await self.parts.sender.send_and_wait([message]) or ():
            if refusal is not None:
                raise refusal
        self.published += 1
