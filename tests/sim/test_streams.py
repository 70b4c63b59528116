"""Simulated TCP behaves as TCP does, and goes wrong in the ways that it should; a connection that listens in vain
sleeps."""

from __future__ import annotations

from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import PROBES, Connection, State
from quoracy.sdk.client.heartbeat import Beating, Sender, Task
from quoracy.sdk.client.memory import Memory
from quoracy.sim.lines import TrainingVitals
from quoracy.sim.network import Network, Weather
from quoracy.sim.streams import CLOSED, CONNECT_US, RESET, Dialing, End, Streams
from quoracy.sim.world import SECOND, World
from quoracy.wire.frames import frame
from quoracy.wire.messages import Greeted, Welcome


class Pair:
    """A client that has connected to a host, and both ends."""

    def __init__(self, seed: int = 1, window: int = 1000, dialing: Dialing | None = None) -> None:
        self.world = World(seed)
        self.network = Network(self.world, Weather())
        self.streams = Streams(self.world, self.network)
        self.streams.window = window
        if dialing is not None:
            self.streams.dialing = dialing
        self.accepted: list[End] = []
        self.dialed: list[tuple[End | None, str]] = []
        self.streams.listen("h", self.accepted.append)

    def dial(self) -> None:
        self.streams.dial("c", "h", lambda end, why: self.dialed.append((end, why)))

    def connected(self) -> tuple[End, End]:
        self.dial()
        self.pass_s(0.1)
        here = self.dialed[-1][0]
        assert here is not None
        return here, self.accepted[-1]

    def pass_s(self, seconds: float) -> None:
        self.world.run(self.world.now_us + round(seconds * SECOND))


def test_bytes_arrive_in_order_and_in_pieces() -> None:
    pair = Pair()
    here, there = pair.connected()
    pieces: list[bytes] = []
    there.readable = lambda: pieces.append(there.read())
    said = [bytes([number]) * 7 for number in range(200)]
    for data in said:
        here.write(data)
    pair.pass_s(5)
    assert b"".join(pieces) == b"".join(said)
    assert any(len(piece) % 7 for piece in pieces)


def test_what_nobody_reads_stays_unsent_at_the_writer_until_somebody_does() -> None:
    pair = Pair(window=1000)
    here, there = pair.connected()
    there.write(b"x" * 3000)
    pair.pass_s(1)
    assert there.unsent_bytes == 2000
    read = here.read()
    assert len(read) == 1000
    for _ in range(5):
        pair.pass_s(1)
        read += here.read()
    assert (len(read), there.unsent_bytes) == (3000, 0)


def test_a_cut_only_delays() -> None:
    pair = Pair()
    here, there = pair.connected()
    pair.network.cut("c", "h")
    here.write(b"late")
    pair.pass_s(2)
    assert there.read() == b""
    pair.network.heal()
    pair.pass_s(1)
    assert there.read() == b"late"


def test_whoever_closes_is_read_to_the_end() -> None:
    pair = Pair()
    here, there = pair.connected()
    here.write(b"goodbye")
    here.close()
    pair.pass_s(1)
    assert (there.read(), there.read(), there.over) == (b"goodbye", b"", CLOSED)


def test_an_end_that_is_not_told_learns_it_when_it_writes_and_the_other_machine_is_there() -> None:
    for answers in (True, False):
        pair = Pair()
        here, there = pair.connected()
        there.drop(here=True, there=False, answers=answers)
        pair.pass_s(1)
        assert (there.read(), there.over) == (b"", RESET)
        assert (here.read(), here.over) == (b"", "")
        here.write(b"anybody?")
        pair.pass_s(1)
        assert (here.read(), here.over) == (b"", RESET if answers else "")


def test_a_machine_that_falls_silent_answers_when_it_is_back() -> None:
    pair = Pair()
    here, there = pair.connected()
    pair.streams.silence("h", dark=True)
    there.drop(here=False, there=False)
    here.write(b"anybody?")
    pair.pass_s(1)
    assert (here.read(), here.over) == (b"", "")
    pair.streams.listen("h", pair.accepted.append)
    pair.pass_s(1)
    assert (here.read(), here.over) == (b"", RESET)


def test_connects_are_refused_time_out_or_come_late() -> None:
    pair = Pair()
    pair.streams.silence("h", dark=False)
    pair.dial()
    pair.pass_s(0.1)
    assert pair.dialed == [(None, "connection refused")]
    pair = Pair(dialing=Dialing(unanswered=1.0))
    pair.dial()
    pair.pass_s(CONNECT_US / SECOND + 1)
    assert (len(pair.accepted), pair.dialed) == (1, [(None, "timed out")])
    orders = set()
    for seed in range(20):
        pair = Pair(seed, dialing=Dialing(late=1.0))
        pair.dial()
        pair.pass_s(CONNECT_US / SECOND + 0.01)
        if not pair.accepted:
            pair.streams.dialing = Dialing()
            pair.dial()
            pair.pass_s(5)
            there = pair.dialed[-1][0]
            assert there is not None
            orders.add(pair.accepted.index(there.other))
    assert orders == {0}, "the later connect is accepted first, and the earlier one after it"


def test_a_connection_that_listens_in_vain_sleeps_between_its_questions() -> None:
    """Else whoever drives it is woken at once, again and again, until somebody answers."""
    memory = Memory.anonymous()
    task = Task("r", "m", [Address("h", 1)], False, None, "", "quoracy.sdk.cluster.heartbeat")
    sender = Sender(task, memory, TrainingVitals(memory))
    connection = Connection(sender, task.addresses, "", None, lambda: 0.5, 0, heartbeats=True)
    sender.beat_for(Beating(1, "token", SECOND, 30 * SECOND), 0)
    connection.connect_to(0)
    connection.connected(0)
    connection.received(frame(Greeted(1, b"c" * 32, "", "member")), 0)
    connection.received(frame(Welcome("m", 1, 1, 1)), 0)
    sender.beat_interval_us = 100 * SECOND
    connection.tick(0)
    now_us, woken = 0, []
    while connection.state is State.UP and len(woken) < 100:
        wake_us = connection.wake_us()
        assert wake_us is not None
        for at_us in range(now_us + 2 * SECOND, wake_us, 2 * SECOND):
            connection.tick(at_us)
        assert wake_us > now_us
        now_us = wake_us
        woken.append(now_us)
        connection.tick(now_us)
    assert len(woken) == PROBES
    assert connection.state is State.DOWN
    memory.close()
