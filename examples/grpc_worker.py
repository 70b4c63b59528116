"""A worker in plain gRPC, with nothing of Quoracy but the file coordinator.proto: how to do it in any language.

pip install grpcio grpcio-tools
mkdir -p made/quoracy/v1 && touch made/quoracy/__init__.py made/quoracy/v1/__init__.py
python -m grpc_tools.protoc -I proto --python_out=made --grpc_python_out=made proto/quoracy/v1/coordinator.proto
PYTHONPATH=made python examples/grpc_worker.py unary 127.0.0.1:50051 demo w1 100
PYTHONPATH=made python examples/grpc_worker.py stream 127.0.0.1:50051 demo w2 100

It prints one line of JSON for each barrier it passes. Kill it and start it again, kill the coordinator and start that
again: it goes on where the others are. Where tokens are asked for (QUORACY_TOKEN), QUORACY_KEY_FILE names the file that
keeps its key: without it another process cannot follow under the same id.
"""

import json
import os
import queue
import secrets
import sys
import threading
import time

import grpc
from quoracy.v1 import coordinator_pb2 as pb
from quoracy.v1 import coordinator_pb2_grpc as stubs

PAUSE_S = 0.1
NOT_NOW = {"overloaded", "draining", "not_serving", "too_fast", "journal_busy", "still_waiting", "outcome_unknown"}
BEGIN_AGAIN = {"member_gone", "stale_token"}  # declared dead, or the run was rolled back: register again and recover
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_time_between_pings_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


def dial(address):
    """With TLS if GRPC_CA names the file of an authority."""
    if ca := os.environ.get("GRPC_CA"):
        with open(ca, "rb") as file:  # noqa: PTH123
            return grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()), KEEPALIVE)
    return grpc.insecure_channel(address, KEEPALIVE)


def bearer(token):
    return (("authorization", f"Bearer {token}"),) if token else ()


def detail(error):
    """The exact reason of a refused call."""
    for name, value in error.trailing_metadata() or ():
        if name == "quoracy-error-bin":
            return pb.ErrorDetail.FromString(value)
    return pb.ErrorDetail(code="", why=error.details())


def patiently(call, request, token=""):
    """Until it is answered. Repeating is safe: the coordinator knows the request by its nonce, seq or step."""
    while True:
        try:
            return call(request, timeout=60.0, metadata=bearer(token))
        except grpc.RpcError as error:
            again = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            if not again and detail(error).code not in NOT_NOW:
                raise
            time.sleep(PAUSE_S)


# -- one call at a time --------------------------------------------------------------------------------------------


def train(address, run, name, steps, token=""):
    with dial(address) as channel:
        coordinator = stubs.CoordinatorStub(channel)
        while True:
            life = Life(coordinator, run, name, token)
            try:
                return life.train(steps)
            except grpc.RpcError as error:
                if detail(error).code not in BEGIN_AGAIN:
                    raise
            finally:
                life.end()


class Life:
    """One incarnation of the worker, from registering to the end."""

    def __init__(self, coordinator, run, name, token):
        self.coordinator, self.seq = coordinator, 0
        join = pb.RegisterWorkerRequest(run=run, worker=name, nonce=secrets.token_bytes(16))
        if token:
            challenge = patiently(coordinator.GetChallenge, pb.GetChallengeRequest(), token).challenge
            prove(join, challenge, followed(coordinator, run, name, token), kept_key())
        me = patiently(coordinator.RegisterWorker, join, token)
        self.token, self.interval_s = me.token, me.heartbeat_interval_s
        self.me = {"run": run, "worker": me.worker, "incarnation": me.incarnation}
        self.over = threading.Event()
        self.beating = threading.Thread(target=self.beat, daemon=True)
        self.beating.start()

    def train(self, steps):
        stands = self.report(pb.REPORTED_STATE_READY)
        if stands.state == pb.WORKER_STATE_RECOVERING:
            # load the last checkpoint
            stands = self.report(pb.REPORTED_STATE_IDLE, stands.fence)
        step = stands.barriers["step"].step + 1 if "step" in stands.barriers else 0
        while step < steps:
            # train this step
            arrive = pb.WaitAtBarrierRequest(**self.me, barrier="step", step=step, fence=stands.fence)
            passage = patiently(self.coordinator.WaitAtBarrier, arrive, self.token)
            if passage.released:
                tell(passage)
                step += 1
            else:  # aborted, for all alike: look where the barrier is, and go on from there
                stands = self.report(pb.REPORTED_STATE_IDLE, stands.fence)
                step = stands.barriers["step"].step + 1
        self.seq += 1
        patiently(self.coordinator.Deregister, pb.DeregisterRequest(**self.me, seq=self.seq, reason="done"), self.token)

    def report(self, state, fence=0):
        """Answers how the worker stands: its state, the fence, and where each barrier is."""
        self.seq += 1
        report = pb.ReportStateRequest(**self.me, seq=self.seq, state=state, fence=fence)
        return patiently(self.coordinator.ReportState, report, self.token)

    def beat(self):
        seq = 0
        while not self.over.wait(self.interval_s):
            seq += 1
            try:
                seen = patiently(self.coordinator.Heartbeat, pb.HeartbeatRequest(**self.me, seq=seq), self.token)
            except grpc.RpcError:
                return  # whoever trains is told the same
            self.token = seen.token or self.token

    def end(self):
        self.over.set()
        self.beating.join()


def followed(coordinator, run, name, token):
    """The newest life of the id: what a join has to supersede."""
    shown = patiently(coordinator.GetRun, pb.GetRunRequest(run=run), token).run
    return next((worker.incarnation for worker in shown.workers if worker.worker == name), 0)


# -- one stream ----------------------------------------------------------------------------------------------------


class Worker:
    """Keeps what is open, and says it again whenever a stream begins."""

    def __init__(self, run, name, steps, token=""):
        self.run, self.name, self.steps, self.token = run, name, steps, token
        self.key = kept_key() if token else None
        self.begin()

    def begin(self):
        """A new incarnation: nothing of the one before is open any more."""
        self.nonce = secrets.token_bytes(16)
        self.incarnation = self.seq = self.fence = self.after = self.step = self.beats = 0
        self.session_token = ""
        self.interval_s = PAUSE_S
        self.ready = self.left = False
        self.command = self.arrival = None

    def live(self, address):
        with dial(address) as channel:
            while not self.left:
                try:
                    self.talk(stubs.CoordinatorStub(channel))
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    time.sleep(PAUSE_S)

    def talk(self, coordinator):
        """One stream, until it breaks or the worker has left."""
        out = queue.Queue()
        stream = coordinator.Session(self.batches(out), metadata=bearer(self.token))
        out.put(self.hello())
        for item in (self.command, self.arrival):
            if item is not None:
                out.put(item)
        try:
            for batch in stream:
                for message in batch.messages:
                    for item in self.hear(message):
                        out.put(item)
                    if self.left:  # a heartbeat that crossed the answer is declined, which is nobody's concern now
                        return
        finally:
            out.put(None)

    def batches(self, out):
        """What there is to say, in as few writes as possible, with a heartbeat when one is due."""
        while True:
            try:
                items = [out.get(timeout=self.interval_s)]
            except queue.Empty:
                items = [self.heartbeat()] if self.incarnation else []
            while not out.empty():
                items.append(out.get())
            if None in items:
                return
            yield pb.ClientMessages(messages=items)

    def hear(self, message):
        """What to say to that."""
        match message.WhichOneof("message"):
            case "welcome" if not self.incarnation:
                join = pb.RegisterWorkerRequest(run=self.run, worker=self.name, nonce=self.nonce)
                join.supersedes = message.welcome.incarnation
                if self.token:
                    prove(join, message.welcome.challenge, join.supersedes, self.key)
                return [pb.ClientMessage(register=join)]
            case "welcome" if message.welcome.incarnation > self.incarnation:
                raise SystemExit("superseded")
            case "answered":
                return self.answered(message.answered)
            case "granted":
                self.session_token = message.granted.token
            case "standing":
                return self.stands(message.standing)
            case "passage" if self.arrival is not None and message.passage.generation > self.after:
                self.arrival, self.after = None, message.passage.generation
                if not message.passage.released:  # aborted, for all alike: look where the barrier is
                    self.ready = False
                    return [self.hello()]
                self.step = message.passage.step + 1
                tell(message.passage)
                return [self.next()]
            case "declined" if message.declined.error.code == "member_gone":
                return self.again()
            case "declined" if message.declined.error.code == "stale_token":
                return [self.hello()]  # its answer tells the fence
            case "declined" if message.declined.error.code not in NOT_NOW:
                raise SystemExit(f"{message.declined.topic}: {message.declined.error.why}")
        return []

    def answered(self, answered):
        if answered.HasField("refused"):
            raise SystemExit(answered.refused.why)
        if answered.seq == 0:
            me = answered.accepted.registered
            self.incarnation, self.fence, self.interval_s = me.incarnation, me.fence, me.heartbeat_interval_s
            return [self.report(pb.REPORTED_STATE_READY)]
        if answered.seq == self.seq and self.command is not None:
            self.left = self.command.HasField("leave")
            self.command = None
        return []

    def stands(self, standing):
        """Taking part begins when the run says idle, or training once a barrier was passed; a worker that has to
        recover says when it has."""
        if standing.incarnation > self.incarnation:
            raise SystemExit("superseded")
        if standing.closed:
            raise SystemExit(standing.reason)
        if standing.state == pb.WORKER_STATE_FAILED:
            return self.again()
        if standing.fence > self.fence:
            self.fence, self.arrival, self.ready = standing.fence, None, False
        if standing.state == pb.WORKER_STATE_RECOVERING and self.command is None:
            return [self.report(pb.REPORTED_STATE_IDLE)]
        if standing.state not in (pb.WORKER_STATE_IDLE, pb.WORKER_STATE_TRAINING) or self.ready:
            return []
        self.ready = True
        mark = standing.barriers["step"]
        self.after, self.step = mark.generation, mark.step + 1 if mark.generation else 0
        return [self.next()]

    def again(self):
        self.begin()
        return [self.hello()]

    def hello(self):
        hello = pb.Hello(run=self.run, worker=self.name, incarnation=self.incarnation, token=self.session_token)
        return pb.ClientMessage(hello=hello)

    def next(self):
        if self.step >= self.steps:
            self.seq += 1
            left = pb.DeregisterRequest(**self.life(), seq=self.seq, reason="done")
            self.command = pb.ClientMessage(leave=left)
            return self.command
        arrive = pb.WaitAtBarrierRequest(
            **self.life(), barrier="step", step=self.step, after=self.after, fence=self.fence
        )
        self.arrival = pb.ClientMessage(arrive=arrive)
        return self.arrival

    def report(self, state):
        self.seq += 1
        report = pb.ReportStateRequest(**self.life(), seq=self.seq, state=state, fence=self.fence)
        self.command = pb.ClientMessage(report=report)
        return self.command

    def heartbeat(self):
        self.beats += 1
        return pb.ClientMessage(heartbeat=pb.HeartbeatRequest(**self.life(), seq=self.beats))

    def life(self):
        return {"run": self.run, "worker": self.name, "incarnation": self.incarnation}


# -- keys ----------------------------------------------------------------------------------------------------------


def kept_key():
    """The key that the id is bound to by its first join; a new one if there is no file that keeps it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = os.environ.get("QUORACY_KEY_FILE", "")
    if path and os.path.exists(path):  # noqa: PTH110
        with open(path, "rb") as file:  # noqa: PTH123
            return Ed25519PrivateKey.from_private_bytes(file.read())
    key = Ed25519PrivateKey.generate()
    if path:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.private_bytes_raw())
    return key


def prove(join, challenge, supersedes, key):
    """Where tokens are asked for, a join shows that it holds the key that its id is bound to."""
    join.supersedes, join.key, join.challenge = supersedes, key.public_key().public_bytes_raw(), challenge
    join.signature = key.sign(to_sign(challenge, join.run, join.worker, supersedes, join.nonce))


def to_sign(challenge, run, worker, supersedes, nonce):
    """["quoracy join", challenge, run, worker, supersedes, nonce] in msgpack."""
    parts = (text("quoracy join"), binary(challenge), text(run), text(worker), integer(supersedes), binary(nonce))
    return b"\x96" + b"".join(parts)


def text(value):
    raw = value.encode()
    return (bytes([0xA0 | len(raw)]) if len(raw) < 32 else bytes([0xD9, len(raw)])) + raw


def binary(raw):
    return bytes([0xC4, len(raw)]) + raw


def integer(value):
    if value < 0x80:
        return bytes([value])
    sizes = ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8))
    mark, size = next((mark, size) for mark, size in sizes if value < 1 << 8 * size)
    return bytes([mark]) + value.to_bytes(size, "big")


def tell(passage):
    said = {"generation": passage.generation, "step": passage.step, "released": passage.released}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    way, address, run, name, steps = sys.argv[1:6]
    token = os.environ.get("QUORACY_TOKEN", "")
    if way == "unary":
        train(address, run, name, int(steps), token)
    else:
        Worker(run, name, int(steps), token).live(address)
