"""etcd is killed with -9 under ranks that are at work: they go on when it is back with its data, and stop themselves
before anybody could give them up if it stays away."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.e2e.ranks_crew import Crew, Member, next_it
from tests.stores.etcd import Etcd

DEAD_S = 12.0
"""etcd has to be back before the ranks stop themselves, after two thirds of this."""


def numbers(member: Member) -> list[int]:
    return [number for number, committed in member.said("voted") if committed]


def in_order(member: Member) -> None:
    """Whatever it has voted for so far: it goes on while this looks."""
    voted = numbers(member)
    assert voted == list(range(voted[0], voted[-1] + 1))


def five_more(member: Member, reached: int) -> dict[str, Any]:
    return next_it(member, lambda it: it["number"] >= reached + 5)


def test_ranks_go_on_when_etcd_is_back_with_its_data(tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd") as etcd, Crew(etcd.url(), tmp_path, form_members=3, t_dead_s=DEAD_S) as crew:
        ranks = [crew.start(rank) for rank in range(3)]
        before = [next_it(rank, lambda it: it["number"] >= 5) for rank in ranks]
        for _ in range(2):
            etcd.restart(etcd.nodes[0])
            etcd.wait()
            before = [five_more(rank, crew.look().crew.number) for rank in ranks]
        assert {tuple(it["members"]) for it in before} == {(0, 1, 2)}
        assert not any(it["gone"] for rank in ranks for it in rank.said("it")), "nobody was given up"
        assert not any(it["joined"] for rank in ranks for it in rank.said("it")[1:]), "nobody had to begin anew"
        for rank in ranks:
            in_order(rank)
        crew.numbers_once()


def test_ranks_stop_themselves_in_time_if_etcd_stays_away(tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd") as etcd, Crew(etcd.url(), tmp_path, form_members=2, t_dead_s=3.0) as crew:
        ranks = [crew.start(rank, "ends", how="train") for rank in range(2)]
        for rank in ranks:
            next_it(rank, lambda it: it["number"] >= 3)
        etcd.nodes[0].kill()
        for rank in ranks:
            name, code, text, _ = rank.hear("raised")
            assert (name, code) == ("CutOff", "unreachable")
            silent = re.search(
                r"no word from the store for ([\d.]+) s .* gives? this rank up after 3 s, so it stops", text
            )
            assert silent is not None, text
            assert float(silent[1]) >= 2.0, "two thirds of the time are its own"
        etcd.nodes[0].launch(etcd.nodes)
        etcd.wait()
        committed = crew.look().crew.number
        assert all(max(numbers(rank)) < committed for rank in ranks), "nothing was committed that is not in the journal"
        crew.numbers_once()


def test_ranks_go_on_when_the_leader_of_three_is_killed(tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd", nodes=3) as etcd, Crew(etcd.url(), tmp_path, form_members=3, t_dead_s=DEAD_S) as crew:
        ranks = [crew.start(rank) for rank in range(3)]
        for rank in ranks:
            next_it(rank, lambda it: it["number"] >= 5)
        for _ in range(2):
            leader = etcd.leader()
            leader.kill()
            reached = crew.look().crew.number
            shown = [five_more(rank, reached) for rank in ranks]
            assert {tuple(it["members"]) for it in shown} == {(0, 1, 2)}
            etcd.restart(leader)
            etcd.wait()
        assert not any(it["gone"] for rank in ranks for it in rank.said("it")), "nobody was given up"
        assert not any(it["joined"] for rank in ranks for it in rank.said("it")[1:]), "nobody had to begin anew"
        for rank in ranks:
            in_order(rank)
        crew.numbers_once()
