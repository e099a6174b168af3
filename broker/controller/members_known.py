"""MembersKnown: the addresses and starts of all controllers, known to all of them.

Each connects to all members of its log's configuration. The leader has their starts committed, by which an old copy of
a directory is found; and the addresses of those that have left forgotten, once no crash can bring these back: until
then they vote, and who begins anew must find them.
"""

from __future__ import annotations

from entrepot.broker.controller.commands import HearController, NameController
from entrepot.broker.controller.member import Member
from entrepot.broker.controller.peers import ControllerPeers
from entrepot.broker.controller.starts import DirectoryStart


class MembersKnown:
    """The part of one controller in that."""

    def __init__(self, peers: ControllerPeers) -> None:
        self._peers = peers
        self._hearing: set[int] = set()
        self._forgetting: set[int] = set()

    def look(self, member: Member, controller: int, start: DirectoryStart) -> None:
        """Look at the members, in each tick. `controller`, `start`: of this one."""
        members, register = member.configuration.members, member.register
        if members:  # a new one knows of none until it is taken in
            self._peers.reach({number: register.addresses.get(number, "") for number in members})
        if not member.is_leader:
            self._hearing.clear()
            self._forgetting.clear()
            return
        self._forget(member)
        heard = {each.controller: each.start for each in self._peers.heard.values()}
        for number, each in {**heard, controller: start}.items():
            known = register.start_of(number)
            is_new = known is None or (known.incarnation == each.incarnation and known.run < each.run)
            if is_new and number in members and number not in self._hearing:
                self._hearing.add(number)
                member.propose(0, HearController(number, each))
            elif not is_new:
                self._hearing.discard(number)

    def addresses(self, member: Member) -> dict[int, str]:
        """Return the addresses of the members, as far as they are known."""
        return {each: found for each in member.configuration.members if (found := self._peers.address(each))}

    def _forget(self, member: Member) -> None:
        known, configuration = member.register.addresses, member.committed_configuration
        left = {each for each in known if each <= configuration.highest and each not in configuration.members}
        for number in left - self._forgetting:
            member.propose(0, NameController(number, ""))
        self._forgetting = left
