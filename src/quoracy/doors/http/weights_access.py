"""Who may fetch and bring which weights through this door.

A participant proves who it is with its session token, its id and its incarnation: then it brings into a folder of its
own and reads from there, and fetches the models of the run. Whoever has a role fetches models; single updates only if
they operate the run, or its settings show them to everybody who may look. So a digest alone is of no use to anybody: to
offer an update is to have brought its bytes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.errors import Refusal, Refused
from quoracy.core.federated.config import Config
from quoracy.core.federated.state import Participant, ParticipantState
from quoracy.core.members import superseded
from quoracy.doors.auth import Action, Identity, Role
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import Trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.orders import kind_of
from quoracy.doors.questions_federated import federated
from quoracy.doors.tokens import is_session_token
from quoracy.hosts.keys import Keys, prefix_of

MAX_BYTES: Final = 2**40
"""No weights are larger, whatever a run allows."""
AS_PARTICIPANT: Final = "?member=ID&incarnation=N with its session token"


class Place(msgspec.Struct, frozen=True):
    """Where weights of a run are for whoever asks."""

    keys: Keys
    max_bytes: int = MAX_BYTES
    member: str = ""
    """The participant that asks, and has proved it; empty for somebody with a role."""

    def brings(self, digest: str) -> str:
        """The key under which it is created."""
        return self.keys.upload(self.member, digest) if self.member else self.keys.blob(digest)

    def fetches(self, digest: str, head: bool) -> tuple[str, ...]:
        """The keys under which it may be, in this order. ``head``: a participant that only asks whether it is there
        wants to know whether it has to bring it; that the run has a model of the same bytes would not help it."""
        if not self.member:
            return (self.keys.blob(digest),)
        own = self.keys.upload(self.member, digest)
        return (own,) if head else (self.keys.blob(digest), own)


def to_fetch(house: House, asked: Asked, run: str) -> Place:
    """Models of the run, and what the participant that asks has brought. Raises Refused."""
    if asked.query.member or is_session_token(asked.token):
        return _as_participant(house, asked, run)[0]
    _check(asked.identity.check(Action.LOOK, run))
    return _of_run(house, run)


def to_bring(house: House, asked: Asked, run: str) -> Place:
    """What a participant has trained; models to begin with from operators; checkpoints of witnessed runs from their
    members. Raises Refused."""
    if asked.query.member or is_session_token(asked.token):
        place, participant = _as_participant(house, asked, run)
        if participant.state is ParticipantState.QUARANTINED:
            why = f"{participant.id} is quarantined: {participant.reason}"
            raise Refused(Refusal("quarantined", why, "ask an operator to let it back in"))
        return place
    witnessed = kind_of(house.service.served(run), "federated", "witnessed") == "witnessed"
    if asked.identity.check(Action.OPERATE, run) is not None:
        _check(asked.identity.check(Action.JOIN, run))
        if not witnessed:
            why = "a join token does not say which participant brings this"
            raise Refused(Refusal("forbidden", why, f"bring it as {AS_PARTICIPANT}"))
    return _of_run(house, run)


def to_fetch_update(house: House, asked: Asked, run: str, participant: str) -> Place:
    """What this participant sent back in some round. Raises Refused."""
    if asked.query.member or is_session_token(asked.token):
        place, asks = _as_participant(house, asked, run)
        if asks.id != participant:
            why = f"{asks.id} asks for an update of {participant}"
            raise Refused(Refusal("forbidden", why, "ask for your own, or for global"))
        return place
    _check(asked.identity.check(Action.LOOK, run))
    if kind_of(house.service.served(run), "federated", "witnessed") == "federated":
        _check_single(asked.identity, _config(house, run), run)
    return _of_run(house, run)


def _check_single(identity: Identity, config: Config, run: str) -> None:
    if identity.check(Action.OPERATE, run) is not None and not config.updates_readable:
        why = f"the role {identity.role.value} does not allow to fetch single updates of {run}"
        fix = f"ask for global, use an operator's token, ask as {AS_PARTICIPANT}, or create runs with updates_readable"
        raise Refused(Refusal("forbidden", why, fix))


def _as_participant(house: House, asked: Asked, run: str) -> tuple[Place, Participant]:
    """Raises Refused if it does not prove who it is, or if a newer life has its place."""
    service, who = house.service, asked.query
    machine = federated(service.served(run))
    if not who.member:
        why = "a session token is good for its participant alone, and nobody is named"
        raise Refused(Refusal("bad_token", why, "add ?member=ID&incarnation=N, as the rendezvous answered"))
    if service.proves(asked.identity) or is_session_token(asked.token):
        checked = service.check_session(asked.token, run, who.member, who.incarnation)
        if isinstance(checked, Refusal):
            raise Refused(checked)
        asked.line.count_by(Identity(Role.MEMBER, run, who.member, f"{run}/{who.member}"))
    known = machine.task.participants.get(who.member)
    if known is None:
        raise Refused(Refusal("unknown_member", f"nobody of the id {who.member} has joined this run", "join first"))
    if known.incarnation != who.incarnation:
        raise Refused(superseded(who.member, who.incarnation, known.incarnation))
    return Place(Keys(prefix_of(run)), machine.task.config.max_update_bytes, known.id), known


def _of_run(house: House, run: str) -> Place:
    if kind_of(house.service.served(run), "federated", "witnessed") == "witnessed":
        return Place(Keys(prefix_of(run)))
    return Place(Keys(prefix_of(run)), _config(house, run).max_update_bytes)


def _config(house: House, run: str) -> Config:
    return federated(house.service.served(run)).task.config


def _check(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise Trouble(refusal)
