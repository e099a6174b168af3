"""The cluster's secret on the wire: both ends prove that they know it, and nobody else gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.wire.all_operations import OPERATIONS
from entrepot.protocols.wire.authentication import NONCE_BYTES, Challenge, ClusterSecret, Role, proof
from entrepot.protocols.wire.connection import ClientConnection, Goodbye, Greeted, ServerConnection, Welcomed
from entrepot.protocols.wire.frames import VERSION, FrameKind, Hello, RemotingError, Welcome, frame
from entrepot.protocols.wire.operations import RAFT, REGISTER, REPLICATE
from entrepot.protocols.wire.values import encode
from tests.support.cases import cases

SECRET = ClusterSecret("the secret of this cluster")
OTHER = ClusterSecret("the secret of another one")
NONCE, SERVER_NONCE = b"c" * NONCE_BYTES, b"s" * NONCE_BYTES


def client(
    secret: ClusterSecret | None = SECRET, role: str = Role.BROKER, channel: bytes = b"", nonce: bytes = NONCE
) -> ClientConnection:
    hello = Hello([VERSION], "tests", "c", *((role, nonce) if secret is not None else ()))
    return ClientConnection(hello, secret, channel)


def server(
    secret: ClusterSecret | None = SECRET, channel: bytes = b"", nonce: bytes = SERVER_NONCE
) -> ServerConnection:
    return ServerConnection("broker", 1000, "c", secret, nonce, channel)


def met(client: ClientConnection, server: ServerConnection) -> tuple[list[object], list[object]]:
    """The events of both ends, until nothing is said any more.  Raises RemotingError."""
    of_client: list[object] = []
    of_server: list[object] = []
    while said := client.data_to_send():
        of_server += server.receive_data(said)
        of_client += client.receive_data(server.data_to_send())
    return of_client, of_server


@pytest.mark.parametrize("role", Role)
def test_both_ends_know_each_other(role: Role) -> None:
    end = server()
    [welcomed], [greeted] = met(client(role=role), end)
    assert isinstance(welcomed, Welcomed)
    assert isinstance(greeted, Greeted)
    assert end.role is role


def test_without_a_secret_nobody_proves_anything() -> None:
    end = server(None)
    [welcomed], [greeted] = met(client(None), end)
    assert isinstance(welcomed, Welcomed) and isinstance(greeted, Greeted) and end.role is None


@cases("secret", [None, OTHER])
def test_a_stranger_gets_nothing(secret: ClusterSecret | None) -> None:
    end, stranger = server(), client(secret)
    if secret is None:
        with pytest.raises(RemotingError, match="the cluster has a secret, and you have none"):
            met(stranger, end)
    else:
        with pytest.raises(RemotingError, match="it does not know the cluster's secret that is given here"):
            met(stranger, end)
    assert end.hello is None and end.role is None


def test_a_client_that_skips_the_check_gets_nothing() -> None:
    """It takes whatever the server proves, and answers by the secret that it has."""
    end, hello = server(), Hello([VERSION], "tests", "c", Role.BROKER, NONCE)
    end.receive_data(frame(FrameKind.HELLO, 0, encode(hello)))
    assert end.data_to_send()
    forged = proof(OTHER.key(Role.BROKER), "client", hello, SERVER_NONCE, "broker", b"")
    for answer in (forged, b"", proof(SECRET.key(Role.BROKER), "server", hello, SERVER_NONCE, "broker", b"")):
        end = server()
        end.receive_data(frame(FrameKind.HELLO, 0, encode(hello)))
        with pytest.raises(RemotingError, match="you do not know the cluster's secret"):
            end.receive_data(frame(FrameKind.PROOF, 0, answer))
        assert end.hello is None


@cases("kind", [kind for kind in FrameKind if kind not in (FrameKind.PROOF, FrameKind.GOODBYE)])
def test_nothing_passes_between_the_challenge_and_the_proof(kind: FrameKind) -> None:
    end = server()
    end.receive_data(client().data_to_send())
    end.data_to_send()
    with pytest.raises(RemotingError, match="before the proof"):
        end.receive_data(frame(kind, 1))
    [said] = client().receive_data(end.data_to_send())
    assert isinstance(said, Goodbye)


def test_a_server_without_the_secret_is_none_of_the_cluster() -> None:
    with pytest.raises(RemotingError, match="it does not ask for the cluster's secret"):
        met(client(), server(None))
    with pytest.raises(RemotingError, match="it does not know the cluster's secret"):
        met(client(), server(OTHER))
    end, challenge = client(None), frame(FrameKind.CHALLENGE, 0, encode(Challenge(SERVER_NONCE, "broker", b"")))
    with pytest.raises(RemotingError, match="it asks for the cluster's secret, and there is none here"):
        end.receive_data(challenge)


def test_where_the_network_is_trusted_a_secret_can_come_later() -> None:
    """Parts with one and without one take each other; another secret is refused all the same."""
    hello = Hello([VERSION], "tests", "c", Role.BROKER, NONCE)

    def new_client(secret: ClusterSecret = SECRET) -> ClientConnection:
        return ClientConnection(hello, secret, may_be_without=True)

    def new_server() -> ServerConnection:
        return ServerConnection("broker", 1000, "c", SECRET, SERVER_NONCE, may_be_without=True)

    assert met(new_client(), server(None))[0], "an earlier server"
    end = new_server()
    assert met(client(None), end)[0] and end.role is None, "an earlier client"
    end = new_server()
    assert met(new_client(), end)[0] and end.role is Role.BROKER
    with pytest.raises(RemotingError, match="it does not know the cluster's secret"):
        met(new_client(OTHER), new_server())


def test_a_proof_is_of_this_connection_alone() -> None:
    """Proofs said on another one, or by the other side, or over another TLS channel, proves nothing."""
    hello = Hello([VERSION], "tests", "c", Role.BROKER, NONCE)
    key = SECRET.key(Role.BROKER)
    said = [
        proof(key, "client", hello, SERVER_NONCE, "broker", b"channel"),
        proof(key, "server", hello, SERVER_NONCE, "broker", b"channel"),
        proof(key, "client", hello, NONCE, "broker", b"channel"),
        proof(key, "client", hello, SERVER_NONCE, "other", b"channel"),
        proof(key, "client", hello, SERVER_NONCE, "broker", b""),
        proof(key, "client", Hello([VERSION], "others", "c", Role.BROKER, NONCE), SERVER_NONCE, "broker", b"channel"),
        proof(SECRET.key(Role.GATEWAY), "client", hello, SERVER_NONCE, "broker", b"channel"),
    ]
    assert len(set(said)) == len(said)
    with pytest.raises(RemotingError, match="does not know"):
        met(client(channel=b"of the stranger in between"), server(channel=b"of the server"))
    assert met(client(channel=b"same"), server(channel=b"same"))[0]


def test_a_server_that_repeats_a_challenge_is_no_server() -> None:
    end, other = client(), server()
    other.receive_data(end.data_to_send())
    challenge = other.data_to_send()
    end.receive_data(challenge)
    with pytest.raises(RemotingError, match="does not know"):
        end.receive_data(challenge)


@given(st.binary(max_size=80))
def test_odd_nonces_and_roles_are_refused(nonce: bytes) -> None:
    for role, given_nonce in (("king", NONCE), ("", NONCE), (Role.BROKER, nonce)):
        if role in list(Role) and len(given_nonce) == NONCE_BYTES:
            continue
        hello = Hello([VERSION], "tests", "c", role, given_nonce)
        with pytest.raises(RemotingError, match="you have none"):
            server().receive_data(frame(FrameKind.HELLO, 0, encode(hello)))


@given(st.binary(max_size=200))
def test_random_challenges_prove_nothing(payload: bytes) -> None:
    with pytest.raises(RemotingError):
        client().receive_data(frame(FrameKind.CHALLENGE, 0, payload))


def test_the_key_of_a_role_is_that_role_s_alone() -> None:
    mine = ClusterSecret(SECRET.role_key(Role.GATEWAY))
    assert not mine.is_whole
    end = server()
    assert met(client(mine, Role.GATEWAY), end)[0] and end.role is Role.GATEWAY
    with pytest.raises(ValueError, match="the key of a gateway, not of a broker, nor the cluster's secret"):
        mine.key(Role.BROKER)
    assert mine.role_key(Role.GATEWAY) == SECRET.role_key(Role.GATEWAY)
    assert len({SECRET.key(role) for role in Role}) == len(Role)


@cases("text", ["", "short", "gateway:12", "gateway:" + "x" * 64, "broker:"])
def test_what_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"too short|hexadecimal digits"):
        ClusterSecret(text)


def test_white_space_around_a_secret_is_none_of_it() -> None:
    assert ClusterSecret("  the secret of this cluster\n").key(Role.BROKER) == SECRET.key(Role.BROKER)


def test_what_only_parts_of_a_kind_may_ask() -> None:
    assert RAFT.callers == {Role.CONTROLLER}
    assert REGISTER.callers == REPLICATE.callers == {Role.BROKER}
    for operation in OPERATIONS.values():
        assert operation.callers, "somebody may"
    of_gateways = {operation.name for operation in OPERATIONS.values() if Role.GATEWAY not in operation.callers}
    assert of_gateways == {
        *("replicate", "have", "seed", "part", "raft", "attach", "report", "obeyed", "change_set", "clock"),
        *("register", "heartbeat", "unregister", "register_change"),
    }


def test_a_peer_of_the_version_before_reads_the_greeting() -> None:
    """It ignores what it does not know."""
    import msgspec

    class EarlierHello(msgspec.Struct, array_like=True):
        versions: list[int]
        who: str
        cluster: str = ""

    told = msgspec.msgpack.decode(encode(Hello([VERSION], "w", "c", Role.BROKER, NONCE)), type=EarlierHello)
    assert (told.versions, told.who, told.cluster) == ([VERSION], "w", "c")
    assert Welcome(VERSION, "w", 1)
