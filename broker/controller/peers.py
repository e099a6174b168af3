"""ControllerPeers: the connections of a controller to the others, and their last reports.

Messages of one tick of the event loop go out as one request. Any of them may get lost: Raft repeats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from entrepot.broker.controller.clocks import CONTROLLERS
from entrepot.broker.controller.raft_codec import Sender, encode_messages
from entrepot.broker.raft.messages import Message
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.background import background
from entrepot.domain.clock import Clock, error_ms
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire import operations as wire

SEND_SECONDS: Final = 2.0
TELL_SECONDS: Final = 0.5
"""Time between two words of the clock."""
MAX_UNANSWERED: Final = 64
"""Most requests that one controller has not taken; further messages are dropped."""


class ControllerPeers:
    """The connections. `sender`: own name, once there is a group. `heard`: others, as last heard. `problems`: of
    others, in words, by id; `refusals`: others' reasons not to listen to this one."""

    def __init__(self, controller: int, addresses: Mapping[int, str], settings: LinkSettings) -> None:
        self._own, self._addresses, self._settings = controller, dict(addresses), settings
        self._loop = asyncio.get_running_loop()
        self.links = {number: Link(address, settings) for number, address in addresses.items() if number != controller}
        self.sender: Sender | None = None
        self.heard: dict[int, Sender] = {}
        self.problems: dict[int, str] = {}
        self.refusals: dict[int, str] = {}
        self._waiting: dict[int, list[Message]] = {}
        self._unanswered: dict[int, int] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._tells_at = 0.0

    def start(self) -> None:
        for link in self.links.values():
            link.start()

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self.links.values()), *self._closing)

    def address(self, controller: int) -> str:
        return self._addresses.get(controller, "")

    def reach(self, members: Mapping[int, str]) -> None:
        """Connect to each other member; an empty address keeps the one in the settings."""
        for number, address in members.items():
            known = self._addresses.get(number, "")
            if number != self._own and address and address != known:
                self._drop(number)
                self._addresses[number] = address
                self.links[number] = Link(address, self._settings)
                self.links[number].start()
        for number in [number for number in self.links if number not in members]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        link = self.links.pop(number, None)
        self._addresses.pop(number, None)
        self.refusals.pop(number, None)
        self.problems.pop(number, None)
        if link is not None:
            closing = background(self._loop).start("close of a link", link.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def hear(self, sender: Sender) -> str:
        """Accept a sender as that controller, or return the reason: another was heard, or it is an old copy."""
        known = self.heard.get(sender.controller)
        if known is not None and (problem := sender.start.old_copy(sender.controller, known.start)):
            return problem
        self.heard[sender.controller] = sender
        return ""

    def forget(self, sender: Sender) -> None:
        """Correct what was heard of a sender: all controllers together know better."""
        if self.heard.get(sender.controller) == sender:
            del self.heard[sender.controller]

    def send(self, target: int, message: Message) -> None:
        """Send a message together with the others of this tick."""
        waiting = self._waiting.setdefault(target, [])
        if not waiting:
            self._loop.call_soon(self._flush, target)
        waiting.append(message)

    def tell_clock(self, clock: Clock) -> None:
        """Tell the others what the clock says, now and then."""
        now = self._loop.time()
        if now < self._tells_at:
            return
        self._tells_at = now + TELL_SECONDS
        payload = wire.CLOCK.encode_arguments(CONTROLLERS, self._own, clock.now_ms(), error_ms(clock))
        for link in self.links.values():
            if link.is_up:
                link.send(wire.CLOCK, payload, SEND_SECONDS, lambda error, payload: None)

    def _flush(self, target: int) -> None:
        messages, self._waiting[target] = self._waiting[target], []
        link = self.links.get(target)
        if link is None or not link.is_up or self.sender is None or self._unanswered.get(target, 0) >= MAX_UNANSWERED:
            return
        self._unanswered[target] = self._unanswered.get(target, 0) + 1

        def answered(error: EntrepotError | None, payload: bytes) -> None:
            self._unanswered[target] -= 1
            if error is None:
                self.refusals.pop(target, None)
            elif error.code is Code.PRECONDITION_FAILED:
                self.refusals[target] = error.message

        meant = self.heard[target].start.token if target in self.heard else ""
        link.send(wire.RAFT, encode_messages(self.sender, meant, messages), SEND_SECONDS, answered)
