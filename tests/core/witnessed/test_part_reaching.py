"""In warm-up a member tries to reach the others: once, and whoever cannot be reached holds nobody up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.player import KEYS, NAMES, PACE, Player, blob, model

from quoracy.core.witnessed import facts
from quoracy.core.witnessed.events import Loaded
from quoracy.core.witnessed.facts import PeersTried, Reach
from quoracy.core.witnessed.views import Peer, PeersShown, Pointer, Standing

POINTER = Pointer("stored", 0, model(0), blob("file"))
LOADED = facts.ModelLoaded(0, model(0))


def everybody(epoch: int = 0, **addresses: tuple[str, ...]) -> PeersShown:
    return PeersShown(epoch, tuple(Peer(name, 1, KEYS[name], addresses.get(name, (f"{name}:1",))) for name in NAMES))


def warming(life: int = 1, epoch: int = 0) -> Standing:
    return Standing(life, "Warming", "Warmup", epoch, 0, "", POINTER, False)


def unanswered() -> Player:
    player = Player()
    player.reaches = False
    return player


def waiting() -> Player:
    """It has the model, and waits for what comes of its tries."""
    player = unanswered()
    player.show(everybody(), warming())
    player.tell(LOADED)
    assert player.take(Reach) == [Reach(0, 1, ("b", "c"))]
    assert player.said(Loaded) == []
    return player


def test_ready_is_who_has_the_model_and_has_tried_all_peers() -> None:
    player = waiting()
    player.tell(PeersTried(0, 1))
    assert player.said(Loaded) == [Loaded("a", 1, 0, 0, model(0))]


@pytest.mark.parametrize("tried_first", [True, False])
def test_which_of_the_two_comes_first_does_not_matter(tried_first: bool) -> None:
    """Both are begun at once: neither waits for the other."""
    player = unanswered()
    player.show(everybody(), warming())
    assert len(player.take(Reach)) == len(player.take(facts.Load)) == 1
    first, second = (PeersTried(0, 1), LOADED) if tried_first else (LOADED, PeersTried(0, 1))
    player.tell(first)
    assert player.said(Loaded) == []
    player.tell(second)
    assert player.said(Loaded) == [Loaded("a", 1, 0, 0, model(0))]


def test_who_cannot_be_reached_holds_nobody_up() -> None:
    player = waiting()
    player.tell(PeersTried(0, 1, ("b", "c")))
    assert len(player.said(Loaded)) == 1


@pytest.mark.parametrize("views", [(everybody(), warming()), (warming(), everybody())])
def test_the_order_in_which_peers_and_standing_are_shown_does_not_matter(views: tuple[Any, ...]) -> None:
    player = unanswered()
    player.show(*views)
    assert player.take(Reach) == [Reach(0, 1, ("b", "c"))]


def test_while_it_is_not_known_who_the_others_are_it_is_not_ready_and_asks() -> None:
    player = unanswered()
    player.show(everybody(0))
    player.show(warming(epoch=1))
    player.tell(LOADED)
    player.tick(PACE.ask_us)
    assert player.take(Reach) == player.said(Loaded) == []
    assert player.take(facts.Ask) == [facts.Ask()]
    player.show(everybody(1))
    player.tell(PeersTried(1, 1))
    assert player.said(Loaded) == [Loaded("a", 1, 1, 0, model(0))]


def test_an_answer_that_is_lost_is_waited_for_so_long_and_no_longer() -> None:
    player = waiting()
    player.tick(PACE.reach_us - 1)
    assert player.said(Loaded) == []
    player.tick(1)
    assert player.said(Loaded) == [Loaded("a", 1, 0, 0, model(0))]


@pytest.mark.parametrize(
    "peers", [PeersShown(0, ()), PeersShown(0, everybody().peers[:1]), everybody(b=(), c=()),
              PeersShown(0, tuple(Peer(name, 1, b"", (f"{name}:1",)) for name in NAMES))],
)  # fmt: skip
def test_where_nobody_can_be_reached_nobody_is_tried(peers: PeersShown) -> None:
    """There is nobody else; or the others have no address, or no key to know them by."""
    player = unanswered()
    player.show(peers, warming())
    player.tell(LOADED)
    assert player.take(Reach) == []
    assert len(player.said(Loaded)) == 1


def test_only_those_with_an_address_are_tried() -> None:
    player = unanswered()
    player.show(everybody(b=()), warming())
    assert player.take(Reach) == [Reach(0, 1, ("c",))]


def test_each_begins_with_another() -> None:
    player = Player("b")
    player.show(everybody(), warming())
    assert player.take(Reach) == [Reach(0, 1, ("c", "a"))]


def test_peers_that_change_are_not_tried_again_in_the_same_warm_up() -> None:
    player = waiting()
    moved = everybody(b=("elsewhere:1",))
    player.show(moved, warming(), moved)
    player.tell(PeersTried(0, 1))
    player.show(everybody(), warming())
    assert player.take(Reach) == []
    assert len(player.said(Loaded)) == 1


def test_the_next_warm_up_tries_again() -> None:
    player = waiting()
    player.tell(PeersTried(0, 1))
    player.said(Loaded)
    player.show(everybody(1), warming(epoch=1))
    assert player.take(Reach) == [Reach(1, 1, ("b", "c"))]
    player.tell(PeersTried(0, 1))
    assert player.said(Loaded) == [], "that was an answer for the last epoch"
    player.tell(PeersTried(1, 1))
    assert player.said(Loaded) == [Loaded("a", 1, 1, 0, model(0))]


def test_a_new_life_tries_again_with_those_it_is_shown() -> None:
    player = waiting()
    player.begin()
    player.show(warming(life=2))
    assert player.take(Reach) == [], "who the others are is shown anew"
    player.show(everybody(c=()))
    assert player.take(Reach) == [Reach(0, 2, ("b",))]
    player.tell(PeersTried(0, 1))
    assert player.said(Loaded) == [], "that was an answer for the last life"
    player.tell(PeersTried(0, 2))
    assert player.said(Loaded) == [Loaded("a", 2, 0, 0, model(0))]


@pytest.mark.parametrize("state", ["Pending", "Resyncing", "InStep"])
def test_outside_of_a_warm_up_nobody_is_tried(state: str) -> None:
    player = unanswered()
    player.stand(state)
    player.show(everybody())
    assert player.take(Reach) == []
