"""Progress: a leader's view of one follower."""

from __future__ import annotations

from entrepot.broker.raft.snapshot import OutgoingSnapshot


class Progress:
    """The state of one follower. `match`: it has the log durably up to there. `next`: entry to send. `heard`: time of
    the last answer. `read_round`: the last that it answered.

    A follower is probed with one message at a time until one fits; then messages follow each other.
    """

    def __init__(self, next_index: int, now: float) -> None:
        self.match, self.next, self.heard, self.read_round = 0, next_index, now, 0
        self.is_probed = True
        self.is_waiting = False  # for the answer to a probe, or a chunk
        self.snapshot: OutgoingSnapshot | None = None

    def succeeded(self, index: int) -> None:
        """Note that the follower has the leader's log durably up to an index."""
        if index < self.match:
            return
        self.match = index
        self.next = max(self.next, index + 1)
        if self.snapshot is not None and index < self.snapshot.snapshot.index:
            return
        self.snapshot = None
        self.is_probed = self.is_waiting = False

    def refused(self, previous: int, index: int) -> bool:
        """Take a follower's suggestion after it lacked `previous`; False if that is not news."""
        if previous <= self.match or (self.is_probed and previous != self.next - 1) or self.snapshot is not None:
            return False
        self.next = max(self.match + 1, min(index, previous))
        self.is_probed, self.is_waiting = True, False
        return True

    def begin_snapshot(self, snapshot: OutgoingSnapshot) -> None:
        """Send a snapshot: the log begins after the entries that the follower needs."""
        self.snapshot, self.is_waiting = snapshot, False
        self.next = snapshot.snapshot.index + 1

    def may_send(self, window: int) -> bool:
        """True if a message may go out now."""
        return not self.is_waiting and (self.is_probed or self.next - 1 - self.match < window)
