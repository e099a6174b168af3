"""What tests ask of a group whose master is replaced."""

from __future__ import annotations

from collections.abc import Collection

from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.replication.mastership import Member
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, eventually, message, pop, settled
from tests.support.waiting import until


async def filled(group: ReplicatedGroup) -> None:
    """A topic `t` with two messages, which all replicas have."""
    await group.store.topology.put_topic(Topic("t", queues=1))
    await append(group.store, "t", "a", "b")
    await group.in_sync()


async def another(group: ReplicatedGroup, old: int) -> int:
    """The next master, once the gateway has found it."""
    found = await until(lambda: group.master if group.master != old else 0, "another one is master")
    await reached(group)
    return found


async def reached(group: ReplicatedGroup) -> None:
    """Return when the gateway has found the master, and has left any earlier one."""

    def is_there() -> bool:
        ready = [client.link.address for client in group.store.cluster.ready]
        return group.master != 0 and ready == [group.addresses[group.master]]

    await until(is_there, "the gateway has found the master")


async def appended(group: ReplicatedGroup, body: str) -> Code | None:
    """None where a message is confirmed; else what is known of it."""
    confirmation = group.store.messages.append([message("t", body)])
    failure = await settled(confirmation)
    refusal = failure or (confirmation.refusals or [None])[0]
    return None if refusal is None else refusal.code


async def taken(group: ReplicatedGroup, body: str) -> None:
    """Have a message confirmed: it is refused as long as too few are in sync, and never in doubt."""

    async def is_taken() -> bool:
        outcome = await appended(group, body)
        assert outcome in (None, Code.UNAVAILABLE)
        return outcome is None

    await eventually(is_taken)


async def joined(group: ReplicatedGroup, observers: Collection[int] = ()) -> None:
    """Return when each replica has what the master has now.  All of it they never have: a load goes on.

    `observers`: those that are not to count.
    """
    await until(lambda: group.master, "somebody is master")
    leading = group.replicas[group.master].store.leading
    end = 0 if leading is None else leading.engine.end
    await until(lambda: min(each.machine.confirmed for each in group.replicas.values()) >= end, "all have it")

    def are_admitted() -> bool:
        """Whether each counts in an election: a new disk does so only once that is decided, and until then a master
        must not be lost as well."""
        leader = group.controllers.running.get(group.controllers.leader)
        decided = None if leader is None or leader._controller is None else leader._controller.decided("group")
        counting = group.replicas.keys() - set(observers)
        own = {Member(number, group.replicas[number].machine.state.incarnation) for number in counting}
        return decided is not None and own <= {*decided.known, *decided.members}

    await until(are_admitted, "the controllers know them all")


def reason(group: ReplicatedGroup) -> str:
    leader = group.controllers.running[group.controllers.leader]
    return leader._ready.register.groups["group"].reason


async def popped(group: ReplicatedGroup, count: int = 1) -> list[Delivery]:
    """So many deliveries, one by one where a master that is new has not derived all yet."""
    found: list[Delivery] = []

    async def are_there() -> bool:
        found.extend(await pop(group.store, "t", "g"))
        return len(found) >= count

    await eventually(are_there)
    return found


async def held(group: ReplicatedGroup, *expected: str) -> None:
    """What was confirmed is there, each once."""
    found: list[str] = []

    async def all_there() -> bool:
        found.extend(bodies(await pop(group.store, "t", "held")))
        return set(expected) <= set(found)

    await eventually(all_there)
    assert len(found) == len(set(found)), "nothing is delivered twice"
