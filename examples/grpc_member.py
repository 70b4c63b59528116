"""A member of a witnessed run in plain gRPC, with nothing of Quoracy but the files in proto.

pip install grpcio grpcio-tools blake3 cryptography msgspec
mkdir -p made/quoracy/v1 && touch made/quoracy/__init__.py made/quoracy/v1/__init__.py
python -m grpc_tools.protoc -I proto --python_out=made --grpc_python_out=made proto/quoracy/v1/*.proto
PYTHONPATH=made python examples/grpc_member.py 127.0.0.1:50051 sums m1

The model is a number, and to train a batch means to add the number of the batch to it. Results go through the HTTP door
of the coordinator, since nobody can reach this member. It prints a line of JSON for each step, and goes on when the
coordinator is killed and started again.
"""

import json
import secrets
import sys
import time
import urllib.error
import urllib.request

import grpc
import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from quoracy.v1 import coordinator_pb2, coordinator_pb2_grpc
from quoracy.v1 import witnessed_pb2 as pb
from quoracy.v1 import witnessed_pb2_grpc as stubs

PAUSE_S = 0.1
WAIT_MS = 2000
AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def hash_of(model):
    return blake3(str(model).encode()).digest()


class Member:
    def __init__(self, channel, run, name):
        self.calls, self.away = stubs.WitnessedStub(channel), False
        self.key = Ed25519PrivateKey.generate()  # one that is to come back under its name keeps it in a file
        challenge = coordinator_pb2_grpc.CoordinatorStub(channel).GetChallenge
        join = pb.JoinRequest(run=run, member=name, supersedes=0, nonce=secrets.token_bytes(16))
        join.key = self.key.public_key().public_bytes_raw()
        join.challenge = self.patiently(challenge, coordinator_pb2.GetChallengeRequest()).challenge
        join.signature = self.signed("quoracy join", join.challenge, run, name, join.supersedes, join.nonce)
        self.me = self.patiently(self.calls.Join, join)
        self.life = {"run": run, "member": name, "incarnation": self.me.incarnation, "token": self.me.token}
        self.model, self.step = 0, 0
        self.known, self.held, self.done = {}, {}, set()
        self.beats = self.commands = 0

    def signed(self, *what):
        return self.key.sign(msgspec.msgpack.encode(what))

    def patiently(self, call, request):
        """Until it is answered. Repeating is safe: the coordinator knows the request by its nonce or number."""
        while True:
            try:
                return call(request, timeout=30.0)
            except grpc.RpcError as error:
                if error.code() not in AGAIN:
                    raise
                self.away = True
                time.sleep(PAUSE_S)

    def live(self):
        """A heartbeat waits until something is different, and brings all that is."""
        while True:
            self.beats += 1
            beat = pb.MemberHeartbeatRequest(**self.life, seq=self.beats, wait_ms=WAIT_MS, known=self.known)
            heard = self.patiently(self.calls.Heartbeat, beat)
            self.known = dict(heard.known)
            if self.away:  # what is not written down is forgotten there: look at everything again, and say it again
                self.known, self.away = {}, False
                continue
            if heard.phase == pb.WITNESSED_PHASE_FINISHED:
                return
            if heard.HasField("sealed"):
                self.apply(heard.sealed.rounds)
            if heard.HasField("standing") and heard.standing.HasField("load"):
                loaded = pb.LoadedRequest(**self.life, epoch=heard.standing.epoch, step=self.step)
                loaded.model = hash_of(self.model)
                self.say(self.calls.Loaded, loaded)
            if heard.HasField("round_shown"):
                self.train(heard.round_shown)
            if heard.HasField("results"):
                self.hold(heard.results)

    def train(self, shown):
        report = pb.ModelHashRequest(**self.life, epoch=shown.epoch, step=self.step, model=hash_of(self.model))
        self.say(self.calls.ModelHash, report)
        self.witness = shown.witness
        for mine in shown.mine:
            place = {"epoch": shown.epoch, "round": shown.round, "assignment": mine.assignment, "attempt": mine.attempt}
            if shown.phase != pb.WITNESSED_PHASE_ROUND_TRAIN or tuple(place.values()) in self.done:
                continue
            self.done.add(tuple(place.values()))
            numbers = [number for span in mine.batches for number in range(span.first, span.end)]
            blob = json.dumps({**place, "member": self.life["member"], "sum": sum(numbers)}).encode()
            digest = blake3(blob).digest()
            self.held[digest] = blob
            self.relay("PUT", digest, blob)
            self.commands += 1
            commit = pb.CommitRequest(**self.life, **place, seq=self.commands, digest=digest, size_bytes=len(blob))
            commit.base, commit.samples = hash_of(self.model), len(numbers) * int(self.me.config["batch_size"])
            commit.loss = 1 / (1 + self.step)
            about = ("quoracy result", self.life["run"], *place.values(), self.life["member"], digest, commit.base)
            commit.signature = self.signed(*about)
            self.say(self.calls.Commit, commit)

    def hold(self, shown):
        """Fetch what others made, and say what is here: as a witness, or as any member."""
        bits = 0
        for index, result in enumerate(shown.results):
            if result.digest not in self.held:
                self.held[result.digest] = self.relay("GET", result.digest)
            bits |= 1 << index
        said = {"epoch": shown.epoch, "round": shown.round, "known": len(shown.results)}
        said["held"] = bits.to_bytes((len(shown.results) + 7) // 8, "little")
        if self.witness:
            self.say(self.calls.Attest, pb.AttestRequest(**self.life, **said))
        else:
            self.say(self.calls.Holds, pb.HoldsRequest(**self.life, **said))

    def apply(self, rounds):
        """Exactly these, in this order."""
        for sealed in rounds:
            if sealed.step == self.step:
                for one in sealed.results:
                    if not one.voided:
                        self.model += json.loads(self.held[one.result.digest])["sum"]
                self.step += 1
                self.held.clear()
                print(json.dumps({"step": self.step, "model": self.model}), flush=True)

    def say(self, call, request):
        """What is said too late is refused by name, and the next view tells what is wanted now."""
        try:
            self.patiently(call, request)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise

    def relay(self, method, digest, blob=None):
        place = f"{self.me.objects_at.http}/api/runs/{self.life['run']}/relay/{digest.hex()}"
        url = f"{place}?member={self.life['member']}&incarnation={self.me.incarnation}"
        request = urllib.request.Request(url, blob, method=method)  # noqa: S310
        request.add_header("content-type", "application/octet-stream")
        if self.me.token:
            request.add_header("authorization", f"Bearer {self.me.token}")
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                    return answer.read()
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError) and error.code != 503:
                    raise
                self.away = True
                time.sleep(PAUSE_S)


if __name__ == "__main__":
    with grpc.insecure_channel(sys.argv[1]) as channel:
        Member(channel, sys.argv[2], sys.argv[3]).live()
