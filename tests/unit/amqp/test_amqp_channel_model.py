"""Channels against a model: opened, closed by either side, published on, in reads that are cut anywhere."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from entrepot.protocols.amqp.connection_events import Acks, ChannelClosed, ChannelOpened, Closing, Event, Publishes
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_basic import BasicAck
from entrepot.protocols.amqp.methods_connection import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import LIMITS, Heard, heard, opened_machine, published, said

NUMBERS = st.integers(1, LIMITS.channel_max)
GONE = AmqpError(ReplyCode.NOT_FOUND, "gone")


class Channels(RuleBasedStateMachine):
    """The client keeps to the protocol: it uses what is open as far as it knows.  `wire` is what it has said and the
    server has not read; `inbox` what the server has said and the client has not read."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = opened_machine(channels=0)
        self.wire = b""
        self.inbox: list[tuple[int, Heard]] = []
        self.known: dict[int, str] = {}  # of the client: "open", or "closing" until the server's close-ok
        self.bodies = 0
        self.expected: list[tuple[int, object]] = []  # what the server must tell, if the channel is not closed there
        self.told: list[tuple[int, object]] = []

    @rule(number=NUMBERS)
    def client_opens(self, number: int) -> None:
        if number not in self.known:
            self.wire += said(number, ChannelOpen())
            self.known[number] = "open"
            self.expected.append((number, "opened"))

    @rule(number=NUMBERS)
    def client_closes(self, number: int) -> None:
        if self.known.get(number) == "open":
            self.wire += said(number, ChannelClose(200, "bye"))
            self.known[number] = "closing"
            self.expected.append((number, "closed"))

    @rule(number=NUMBERS, size=st.sampled_from([0, 1, 50, 5000]))
    def client_publishes(self, number: int, size: int) -> None:
        if self.known.get(number) == "open":
            self.bodies += 1
            body = b"%d " % self.bodies + bytes(size)
            self.wire += published(number, "e", "k", body)
            self.expected.append((number, body))

    @rule(number=NUMBERS, tag=st.integers(0, 1 << 63))
    def client_acknowledges(self, number: int, tag: int) -> None:
        if self.known.get(number) == "open":
            self.wire += said(number, BasicAck(tag))
            self.expected.append((number, tag))

    @rule(number=NUMBERS)
    def server_closes(self, number: int) -> None:
        was_open = self.machine.connection.is_channel_open(number)
        self.machine.connection.close_channel(number, GONE)
        if was_open:
            self.told.append((number, "server closed"))
            assert not self.machine.connection.is_channel_open(number)
        self.hear(self.machine.connection.data_to_send())

    @rule(share=st.floats(0, 1))
    @precondition(lambda self: self.wire)
    def server_reads(self, share: float) -> None:
        cut = max(1, int(len(self.wire) * share))
        before = len(self.machine.events)
        data, self.wire = self.wire[:cut], self.wire[cut:]
        self.hear(self.machine.feed(data))
        for event in self.machine.events[before:]:
            self.note(event)

    @rule()
    @precondition(lambda self: self.inbox)
    def client_reads(self) -> None:
        number, method = self.inbox.pop(0)
        if isinstance(method, ChannelClose):
            self.wire += said(number, ChannelCloseOk())
            if self.known.get(number) == "open":
                del self.known[number]
        elif isinstance(method, ChannelCloseOk):
            assert self.known.pop(number) == "closing"
        else:
            assert isinstance(method, ChannelOpenOk)

    def hear(self, data: bytes) -> None:
        self.inbox += heard(data)

    def note(self, event: Event) -> None:
        assert not isinstance(event, Closing), event
        if isinstance(event, ChannelOpened):
            self.told.append((event.channel, "opened"))
        elif isinstance(event, ChannelClosed):
            assert event.is_clients
            self.told.append((event.channel, "closed"))
        elif isinstance(event, Publishes):
            self.told += [(event.channel, publish.body) for publish in event.publishes]
        elif isinstance(event, Acks):
            self.told += [(event.channel, settlement[1]) for settlement in event.settlements]

    @invariant()
    def what_is_told_is_what_was_said(self) -> None:
        """Channel by channel: all that was said, in order, but for what came behind a close of the server's."""
        for number in range(1, LIMITS.channel_max + 1):
            said_here = [what for at, what in self.expected if at == number]
            told_here = [what for at, what in self.told if at == number]
            position, is_dropping = 0, False
            for what in told_here:
                if what == "server closed":
                    is_dropping = True
                    continue
                if is_dropping:  # on goes the next life of the channel
                    assert what == "opened"
                    position = said_here.index("opened", position)
                    is_dropping = False
                assert said_here[position] == what
                position += 1

    def teardown(self) -> None:
        """Everything is read: what is not told by then was dropped for a reason."""
        while self.wire or self.inbox:
            while self.inbox:
                self.client_reads()
            if self.wire:
                self.server_reads(1.0)
        self.what_is_told_is_what_was_said()
        dropped = {number for number, what in self.told if what == "server closed"}
        for number in set(range(1, LIMITS.channel_max + 1)) - dropped:
            told = [what for at, what in self.told if at == number]
            assert told == [what for at, what in self.expected if at == number]
        for number in range(1, LIMITS.channel_max + 1):
            assert self.machine.connection.is_channel_open(number) == (self.known.get(number) == "open")


Channels.TestCase.settings = settings(stateful_step_count=40)
TestChannels = Channels.TestCase
