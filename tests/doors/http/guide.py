"""Loaded by schemathesis, which knows the form of everything and the meaning of nothing. Half of its requests that fit
the document are led to something that is there: a run, a worker with its token and its next number, weights with their
digest. What is sent fits the document still, so every check counts. Whatever was answered is noted for the test."""

from __future__ import annotations

import json
import os
import secrets
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from itertools import count, cycle
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import schemathesis
from blake3 import blake3

from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import MemberKey

URL, TOKEN, NOTES = (os.environ[f"QUORACY_{name}"] for name in ("URL", "TOKEN", "NOTES"))
MEMBER: dict[str, Any] = json.loads(os.environ["QUORACY_MEMBER"])
"""Of the witnessed run: who it is, its token, and the batches that it has."""
turns, names, numbers = count(), count(), count(1)
ranges = cycle(("", "bytes=0-0", "bytes=1-", "", "bytes=-1", "bytes=999999-"))


class Life:
    """A worker that has registered."""

    def __init__(self, run: str, told: dict[str, Any]) -> None:
        self.run, self.member, self.token = run, told["member"], told["token"]
        self.incarnation = told["incarnation"]
        self.commands = 0


lives: list[Life] = []
created: list[str] = []
whole: list[str] = []
begun: list[bytes] = []
relayed: list[str] = []


def post(path: str, body: Any, token: str = TOKEN) -> Any:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(f"{URL}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def registration(run: str, member: str) -> dict[str, Any]:
    """Signed, as it has to be where tokens are asked for."""
    key, nonce = MemberKey.create(), secrets.token_bytes(16)
    challenge = bytes.fromhex(post("/api/challenge", {})["challenge"])
    proof = challenge + key.sign(signed_by_joiner(challenge, run, member, 0, nonce))
    return {"member": member, "nonce": nonce.hex(), "supersedes": 0, "key": key.public.hex(), "proof": proof.hex()}


def alone(passes: bool) -> Life:
    """A worker in a run of its own, which nobody has rolled back or stopped meanwhile; it has passed a barrier."""
    run = f"solo-{next(names)}"
    post("/api/runs", {"run": run})
    life = Life(run, post(f"/api/runs/{run}/workers", registration(run, "s1")))
    home = f"/api/runs/{run}/workers/s1"
    post(f"{home}/state", {"incarnation": 1, "seq": 1, "state": "ready"}, life.token)
    if passes:
        post(f"{home}/barriers/step", {"incarnation": 1, "step": 0}, life.token)
    return life


# -- what fits -------------------------------------------------------------------------------------------------------


def in_run(run: str) -> Callable[[Any], None]:
    def fit(case: Any) -> None:
        case.path_parameters["run"] = run

    return fit


def register(case: Any) -> None:
    case.path_parameters["run"] = "demo"
    case.headers.pop("Idempotency-Key", None)
    case.body = {**case.body, **registration("demo", f"w{next(names)}")}


def be(case: Any, life: Life) -> None:
    case.path_parameters.update(run=life.run, member=life.member)
    case.headers["Authorization"] = f"Bearer {life.token}"
    case.body = {**case.body, "incarnation": life.incarnation}


def state(case: Any) -> None:
    if lives:
        be(case, lives[-1])
        case.body |= {"seq": lives[-1].commands + 1, "state": "idle" if lives[-1].commands else "ready", "fence": 0}


def heartbeat(case: Any) -> None:
    if lives:
        be(case, lives[-1])
        case.body |= {"seq": next(numbers)}


def arrive(case: Any) -> None:
    be(case, alone(passes=False))
    case.path_parameters["barrier"] = "step"
    case.body |= {"after": case.body.get("after") and 0, "fence": 0, "timeout_s": 5.0}


def drop(case: Any) -> None:
    case.path_parameters.update(run=alone(passes=True).run, barrier="step")
    case.headers.pop("Idempotency-Key", None)


def leave(case: Any) -> None:
    if lives:
        be(case, lives[-1])
        case.body |= {"seq": lives[-1].commands + 1}


NEEDED = ("demo", "fed", "wit")
"""Schemathesis learns names from answers, and would end the runs that everything else is tried with."""


def stop(case: Any) -> None:
    if created:
        case.path_parameters["run"] = created.pop()


def by_role(case: Any) -> None:
    """Not as a participant, which would have to show its session token."""
    for name in ("member", "incarnation"):
        case.query.pop(name, None)


def put(case: Any) -> None:
    by_role(case)
    case.path_parameters.update(run="fed", digest=blake3(as_sent(case)).hexdigest())


def append(case: Any) -> None:
    """The first byte of something, or the rest of what was begun."""
    by_role(case)
    offset = len(begun)
    if not begun:
        begun.append(b"#" + secrets.token_bytes(1 + next(numbers) % 9))
    content = begun[0] if not offset else begun.pop()
    case.path_parameters.update(run="fed", digest=blake3(content).hexdigest())
    case.headers.update({"Upload-Offset": str(offset), "Upload-Length": str(len(content))})
    case.body = content[1:] if offset else content[:1]


def fetch(case: Any) -> None:
    by_role(case)
    case.path_parameters["run"] = "fed"
    if begun and case.method.upper() == "HEAD":
        case.path_parameters["digest"] = blake3(begun[0]).hexdigest()
    elif whole:
        case.path_parameters["digest"] = whole[next(numbers) % len(whole)]
    ranged(case)


def named(case: Any) -> None:
    by_role(case)
    case.path_parameters.update(run="fed", round=4, participant="global")
    ranged(case)


def reports(case: Any) -> None:
    case.path_parameters.update(run="fed", participant="p1")


def measured(case: Any) -> None:
    by_role(case)
    case.path_parameters.update(run="fed", round=4, participant="p1")
    ranged(case)


def member(case: Any) -> None:
    case.path_parameters["run"] = "wit"
    case.query.update(member=MEMBER["member"], incarnation=1)
    case.headers["Authorization"] = f"Bearer {MEMBER['token']}"


def batches(case: Any) -> None:
    member(case)
    case.path_parameters["batches"] = MEMBER["batches"]


def pass_on(case: Any) -> None:
    member(case)
    case.path_parameters["digest"] = blake3(as_sent(case)).hexdigest()


def passed_on(case: Any) -> None:
    member(case)
    if relayed:
        case.path_parameters["digest"] = relayed[-1]
    ranged(case)


def ranged(case: Any) -> None:
    if wanted := next(ranges):
        case.headers["Range"] = wanted


def login(case: Any) -> None:
    case.body = {"token": TOKEN}


def pause(case: Any) -> None:
    case.path_parameters["run"] = "fed"
    with suppress(HTTPError):
        post(f"/api/runs/fed/{'resume' if case.path.endswith('pause') else 'pause'}", {})


def readmit(case: Any) -> None:
    case.path_parameters.update(run="fed", member="p1")


def meaning(case: Any) -> None:
    case.path_parameters["code"] = "malformed"


FITS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(("show", "explain", "order", "roll-back", "journal", "series", "events"), in_run("demo")),
    **dict.fromkeys(("pause", "resume"), pause),
    "history": in_run("fed"), "epochs": in_run("wit"), "batches": batches, "held-out": member, "relay": passed_on,
    "put-relay": pass_on,
    **dict.fromkeys(("weights", "head-weights"), fetch),
    "register": register, "state": state, "heartbeat": heartbeat, "arrive": arrive, "leave": leave, "stop": stop,
    "drop-barrier": drop,
    "put-weights": put, "append-weights": append, "named-weights": named, "login": login, "readmit": readmit,
    "problem": meaning, "reports": reports, "metrics-object": measured,
}  # fmt: skip


def as_sent(case: Any) -> bytes:
    body = case.body
    return body if isinstance(body, bytes) else bytes(getattr(body, "data", b""))


def bounded(case: Any) -> None:
    """Schemathesis reads a stream until it has seen twenty events or waited for long. Every other stream that would
    follow begins with as many, and the others end with what is there."""
    said = case.query.get("follow", True)
    if str(said[0] if isinstance(said, list) and said else said).lower() not in ("true", "1"):
        return
    if "{run}" in case.path and next(turns) % 2:
        case.path_parameters["run"] = "demo"
        case.query["after"] = 0
        case.headers.pop("Last-Event-ID", None)
    else:
        case.query["follow"] = False


@schemathesis.auth()
class Token:
    def get(self, _case: Any, _context: Any) -> str:
        return TOKEN

    def set(self, case: Any, token: str, _context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {token}"


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    name = case.operation.definition.raw["operationId"]
    fit = FITS.get(name)
    if fit is not None and case.meta is not None and case.meta.generation.mode.is_positive and next(turns) % 2:
        fit(case)
    if name in ("events", "all-events"):
        bounded(case)
    if name == "stop" and case.path_parameters.get("run") in NEEDED:
        case.path_parameters["run"] = alone(passes=False).run


@schemathesis.check
def what_fits_is_not_malformed(_context: Any, response: Any, case: Any) -> None:
    """Where 400 may be the answer to what fits the document, it is because settings exclude each other."""
    if case.meta is not None and case.meta.generation.mode.is_positive and response.status_code == 400:
        assert json.loads(response.content)["code"] == "config", response.content


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    if response.request.method != case.operation.method.upper():
        return  # a method that is not there, to see whether it is
    name, status = case.operation.definition.raw["operationId"], response.status_code
    with Path(NOTES).open("a") as notes:
        said = json.loads(response.content).get("code", "") if status >= 400 and response.content[:1] == b"{" else ""
        notes.write(f"{json.dumps([name, status, said])}\n")
    learn(name, status, case, response)


def learn(name: str, status: int, case: Any, response: Any) -> None:
    match name, status:
        case "register", 201:
            told = json.loads(response.content)
            lives.append(Life(told["run"], told))
        case "create", 201:
            created.append(json.loads(response.content)["run"])
        case (("put-weights" | "append-weights"), (200 | 201)):
            whole.append(case.path_parameters["digest"])
        case "put-relay", (200 | 201):
            relayed.append(case.path_parameters["digest"])
        case "state", 200:
            lives[-1].commands += 1
        case ("leave", 200) | (("state" | "heartbeat" | "leave"), 409):
            lives[:] = [life for life in lives if life.member != case.path_parameters["member"]]
