"""Every route, in one table: what it takes, what it gives, who may, and what can go wrong. The server answers from it,
and the OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec
from starlette.types import Send

from quoracy.doors.http import (
    batches,
    health,
    members,
    metrics_objects,
    pages,
    people,
    relay,
    shapes,
    shapes_rounds,
    shapes_witnessed,
    weights,
)
from quoracy.doors.http.answers import Answer
from quoracy.doors.http.house import House
from quoracy.doors.http.reading import Asked

Handle = Callable[[House, Asked], Awaitable[Answer]]
Stream = Callable[[House, Asked, Send], Awaitable[None]]
Who = Literal["anybody", "role", "member"]
"""anybody: no token. role: a token that names a role. member: that, or the session token of the member."""

COMMAND: Final = ("malformed", "unknown_run", "run_closed", "overloaded", "draining", "not_serving")
KEYED: Final = (*COMMAND, "contradiction")
MEMBER: Final = (*KEYED, "superseded", "member_gone", "sequence_gap", "answer_forgotten", "wrong_state")

OCTETS: Final = "application/octet-stream"
STORE: Final = ("objects_unreachable", "objects_full", "objects_denied", "objects_broken", "object_corrupt")
OBJECTS: Final = ("unknown_run", "contradiction", "object_missing", "no_such_range", *STORE)
UPLOADS: Final = (
    "unknown_run", "contradiction", "object_missing", "object_too_large", "digest_mismatch", "foreign_origin", *STORE,
)  # fmt: skip
PROVEN: Final = ("unknown_member", "superseded")
WEIGHTS: Final = (*OBJECTS, *PROVEN)
BROUGHT: Final = (*UPLOADS, *PROVEN, "quarantined")
SAMPLES: Final = (
    "unknown_run", "contradiction", "unknown_member", "superseded", "not_yours", "too_large", "config",
)  # fmt: skip
PART: Final = (206, "The bytes that Range asks for")
THERE: Final = (200, "They were there")

ONCE: Final = "The same wish again gets the same answer, across restarts; another wish under it is a contradiction"
JOIN: Final = (
    "Stands for the nonce where the body has none: the same key again is the same registration. Beside a nonce that is "
    "not the one it stands for, a contradiction"
)
NUMBERED: Final = "May be there, but the numbers in the body decide: the same seq again gets the same answer"
ARRIVAL: Final = "May be there, but the numbers in the body decide: the same arrival again waits for the same release"
HARMLESS: Final = "May be there, but changes nothing: a repeat does no harm"


class Route(msgspec.Struct, frozen=True):
    method: str
    path: str
    name: str
    summary: str
    handle: Handle | None
    """None: an event stream, which answers by itself."""
    answer: Any = None
    status: int = 200
    body: Any = None
    query: Any = shapes.Nothing
    who: Who = "role"
    media: str = "application/json"
    wrong: tuple[str, ...] = ()
    tag: str = "runs"
    key: str = ""
    """What an Idempotency-Key does here. Every POST takes one, and says it."""
    also: tuple[tuple[int, str], ...] = ()
    """Other statuses that are fine, and when."""
    stream: Stream | None = None
    """Answers by itself, piece by piece."""
    ranged: bool = False
    """One may ask for a part of it."""
    upload: bool = False
    """The body is read by whoever handles it, piece by piece."""


ROUTES: Final = (
    Route("GET", "/api/status", "status", "The server", people.status, shapes.Status, tag="server"),
    Route("GET", "/api/workers", "workers", "Workers of one run or of all", people.workers, shapes.Workers,
          query=shapes.WorkersPage, wrong=("unknown_run",)),
    Route("GET", "/api/runs", "runs", "Every run in brief", people.runs, shapes.Runs, query=shapes.RunsPage),
    Route("POST", "/api/runs", "create", "Create a run", people.create, shapes.RunShown, 201, shapes.Creation,
          wrong=("run_exists", "contradiction", "config", "draining", "not_serving"), key=ONCE),
    Route("GET", "/api/runs/{run}", "show", "A run: workers, barriers, what it waits for", people.run,
          shapes.RunShown, wrong=("unknown_run",)),
    Route("GET", "/api/runs/{run}/explain", "explain", "What a run waits for, and why", people.explain,
          shapes.Explanation, wrong=("unknown_run",)),
    Route("POST", "/api/runs/{run}/stop", "stop", "End a run", people.stop, shapes.Done, body=shapes.Reasoned,
          wrong=KEYED, key=ONCE),
    Route("POST", "/api/runs/{run}/roll-back", "roll-back", "Go back to an earlier point: older fences are void",
          people.roll_back, shapes.Done, body=shapes.Reasoned, wrong=KEYED, key=ONCE),
    Route("POST", "/api/runs/{run}/barriers/{barrier}/drop", "drop-barrier", "Abort a barrier for all who stand there",
          people.drop_barrier, shapes.Done, body=shapes.Reasoned, wrong=(*KEYED, "barrier_unknown"), key=ONCE),
    Route("POST", "/api/runs/{run}/orders", "order", "Order one worker or all", people.order, shapes.Done,
          body=shapes.Order, wrong=(*KEYED, "unknown_worker", "wrong_state"), key=ONCE),
    Route("GET", "/api/runs/{run}/journal", "journal", "Entries of the journal, in order", people.journal,
          shapes.Entries, query=shapes.NumberedPage, wrong=("unknown_run", "entries_gone")),
    Route("GET", "/api/runs/{run}/series", "series", "How numbers went: which there are, or one of them",
          people.series, shapes.SeriesShown, query=shapes.Selection, wrong=("unknown_run",)),
    Route("GET", "/api/runs/{run}/history", "history", "Rounds of a federated run that are over", people.history,
          shapes.History, query=shapes.NumberedPage, wrong=("unknown_run", "contradiction")),
    Route("GET", "/api/runs/{run}/participants/{participant}/history", "reports",
          "What a participant of a federated run reported of its trainings", people.reports,
          shapes_rounds.TrainingReports, query=shapes.NumberedPage,
          wrong=("unknown_run", "contradiction", "unknown_member")),
    Route("GET", "/api/runs/{run}/participants/{participant}/metrics/{round}", "metrics-object",
          "Metrics of a training that were too large for its report, as safetensors", None, stream=metrics_objects.get,
          media=OCTETS, wrong=WEIGHTS, ranged=True, also=(PART,), query=shapes_rounds.Uploader, who="member"),
    Route("GET", "/api/runs/{run}/epochs", "epochs", "Epochs of a witnessed run that are over", people.epochs,
          shapes_witnessed.Epochs, query=shapes.NumberedPage, wrong=("unknown_run", "contradiction")),
    Route("GET", "/api/runs/{run}/batches/{batches}", "batches", "Samples of batches that are assigned to a member",
          None, stream=batches.get, query=shapes_witnessed.Asking, who="member", media=OCTETS, wrong=SAMPLES,
          tag="samples"),
    Route("GET", "/api/runs/{run}/held-out", "held-out", "Samples that are not trained on", None,
          stream=batches.held_out, query=shapes_witnessed.Asking, who="member", media=OCTETS,
          wrong=(*SAMPLES, "object_missing"), tag="samples"),
    Route("GET", "/api/runs/{run}/relay/{digest}", "relay", "A blob of a member that others cannot reach", None,
          stream=relay.get, query=shapes_witnessed.Asking, who="member", media=OCTETS, ranged=True, also=(PART,),
          wrong=(*OBJECTS, "unknown_member", "superseded"), tag="relay"),
    Route("PUT", "/api/runs/{run}/relay/{digest}", "put-relay", "Pass a blob on", relay.put, status=201,
          query=shapes_witnessed.Asking, who="member", upload=True, also=((200, "It was there"),),
          wrong=(*UPLOADS, "unknown_member", "superseded"), tag="relay"),
    Route("POST", "/api/runs/{run}/pause", "pause", "Pause a federated or witnessed run", people.pause, shapes.Done,
          body=shapes.Reasoned, wrong=KEYED, key=ONCE),
    Route("POST", "/api/runs/{run}/resume", "resume", "Let a paused run go on", people.resume, shapes.Done,
          body=shapes.Nothing, wrong=KEYED, key=ONCE),
    Route("POST", "/api/runs/{run}/participants/{member}/readmit", "readmit",
          "Let a quarantined participant back in, or a member that was proven to lie",
          people.readmit, shapes.Done, body=shapes.Nothing, wrong=(*KEYED, "unknown_member"), key=ONCE),
    Route("GET", "/api/runs/{run}/weights/{digest}", "weights", "Weights by their digest; ranges are understood", None,
          stream=weights.get, media=OCTETS, wrong=WEIGHTS, tag="weights", ranged=True, also=(PART,),
          query=shapes_rounds.Uploader, who="member"),
    Route("HEAD", "/api/runs/{run}/weights/{digest}", "head-weights", "How large weights are", None,
          stream=weights.get, media=OCTETS, wrong=WEIGHTS, tag="weights", ranged=True,
          query=shapes_rounds.Uploader, who="member",
          also=(PART, (204, "An upload in parts has come so far"))),
    Route("PUT", "/api/runs/{run}/weights/{digest}", "put-weights", "Upload weights",
          weights.put, status=201, upload=True, wrong=BROUGHT, tag="weights", also=(THERE,),
          query=shapes_rounds.Uploader, who="member"),
    Route("PATCH", "/api/runs/{run}/weights/{digest}", "append-weights",
          "Upload a part, from Upload-Offset on; 201 when Upload-Length is reached", weights.patch, status=201,
          upload=True, wrong=(*BROUGHT, "upload_offset"), tag="weights", query=shapes_rounds.Uploader, who="member",
          also=(THERE, (204, "The part is there, and more is to come"))),
    Route("GET", "/api/runs/{run}/weights/{round}/{participant}", "named-weights",
          "The model that a round began with (global), or what a participant sent back", None, stream=weights.get_named,
          media=OCTETS, wrong=WEIGHTS, tag="weights", ranged=True, also=(PART,), query=shapes_rounds.Uploader,
          who="member"),
    Route("GET", "/api/runs/{run}/events", "events", "Entries of one run as they come, as Server-Sent Events", None,
          query=shapes.Since, media="text/event-stream", wrong=("unknown_run",), tag="events"),
    Route("GET", "/api/events", "all-events", "Entries of all runs as they come, as Server-Sent Events", None,
          query=shapes.Which, media="text/event-stream", wrong=("unknown_run", "too_many_runs"), tag="events"),
    Route("POST", "/api/challenge", "challenge", "What a registration with a key signs", members.challenge,
          shapes.Challenge, body=shapes.Nothing, tag="members", key=HARMLESS),
    Route("POST", "/api/runs/{run}/workers", "register", "Register a worker", members.register, shapes.Registered, 201,
          shapes.Registration, tag="members", key=JOIN,
          wrong=(*KEYED, "nonce_missing", "key_mismatch", "stale_join", "roster_full", "fleet_full")),
    Route("POST", "/api/runs/{run}/workers/{member}/state", "state", "Say what a worker does", members.state,
          shapes.Stands, body=shapes.State, who="member", wrong=MEMBER, tag="members", key=NUMBERED),
    Route("POST", "/api/runs/{run}/workers/{member}/heartbeat", "heartbeat", "Say that a worker is alive",
          members.heartbeat, shapes.HeartbeatAnswer, body=shapes.Beat, who="member", wrong=MEMBER, tag="members",
          key=NUMBERED),
    Route("POST", "/api/runs/{run}/workers/{member}/barriers/{barrier}", "arrive", "Wait at a barrier, for a time",
          members.arrive, shapes.Passage, body=shapes.Arrival, who="member",
          wrong=(*MEMBER, "still_waiting", "barrier_forgotten", "step_behind", "barriers_full", "stale_token"),
          tag="members", key=ARRIVAL),
    Route("POST", "/api/runs/{run}/workers/{member}/leave", "leave", "Say goodbye: nobody waits for it any more",
          members.leave, shapes.Done, body=shapes.Leaving, who="member", wrong=MEMBER, tag="members",
          key=NUMBERED),
    Route("POST", "/api/login", "login", "Log a browser in", health.log_in, shapes.LoggedIn, body=shapes.Login,
          who="anybody", wrong=("bad_token",), tag="server", key=HARMLESS),
    Route("POST", "/api/logout", "logout", "Log a browser out", health.log_out, None, 204, shapes.Nothing,
          who="anybody", tag="server", key=HARMLESS),
    Route("GET", "/metrics", "metrics", "Figures for Prometheus", health.metrics, None, media="text/plain",
          wrong=("not_serving",), tag="server"),
    Route("GET", "/livez", "livez", "The process lives", health.livez, shapes.Alive, who="anybody", tag="server"),
    Route("GET", "/readyz", "readyz", "The server serves", health.readyz, shapes.Ready, who="anybody", tag="server",
          also=((503, "It does not, for these reasons"),)),
    Route("GET", "/problems/{code}", "problem", "What a code of a problem means", health.problem, shapes.Meaning,
          who="anybody", wrong=("no_such_page",), tag="server"),
)  # fmt: skip

PAGES: Final = (
    Route("GET", "/api/docs", "docs", "This page", pages.page, who="anybody", media="text/html"),
    Route("GET", "/api/docs/docs.css", "docs-style", "Its style", pages.style, who="anybody", media="text/css"),
    Route("GET", "/api/docs/docs.js", "docs-script", "Its script", pages.script, who="anybody",
          media="text/javascript"),
    Route("GET", "/api/docs/docs.svg", "docs-icon", "Its icon", pages.icon, who="anybody", media="image/svg+xml"),
)  # fmt: skip
"""Not part of the interface, and not in its description."""
