"""The beater alone: what it goes on from, what it notices, and when it does not beat."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import msgspec
from tests.sdk.live import wait_for

from quoracy.core.errors import JournalBusy, JournalFull
from quoracy.ports import Beat, Pulse
from quoracy.sdk.ranks.heartbeat import Beater, Task, is_stopped, now_us
from quoracy.stores import MemoryPulse

TASK = Task("memory://", "demo", "3", beat_s=0.001, look_s=0.001, dead_s=60.0, op_s=1.0)


def turn(beater: Beater, times: int = 1) -> None:
    for _ in range(times):
        time.sleep(0.002)
        beater.loop()


def test_one_that_replaces_another_goes_on_from_its_number() -> None:
    pulse = MemoryPulse()
    first = Beater(TASK, lambda: pulse, os.getpid())
    first.be(2)
    turn(first, 5)
    before = pulse.beats("demo")["3"].seq
    assert before == (2 << 32) + 5
    second = Beater(TASK, lambda: pulse, os.getpid())
    second.be(2)
    turn(second)
    assert pulse.beats("demo")["3"].seq == before + 1


def test_a_new_life_does_not_go_on_from_the_old_ones_number() -> None:
    pulse = MemoryPulse()
    beater = Beater(TASK, lambda: pulse, os.getpid())
    beater.be(1)
    turn(beater, 5)
    beater.be(2)
    turn(beater)
    assert pulse.beats("demo")["3"].seq == (2 << 32) + 1


def test_nobody_beats_for_a_life_that_has_not_begun() -> None:
    pulse = MemoryPulse()
    beater = Beater(TASK, lambda: pulse, os.getpid())
    turn(beater, 3)
    assert pulse.beats("demo") == {}
    assert beater.sight().looks == 3


def test_a_stopped_training_is_not_beaten_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as training:
        try:
            training.send_signal(signal.SIGSTOP)
            wait_for(lambda: is_stopped(training.pid), "it is stopped")
            pulse = MemoryPulse()
            beater = Beater(TASK, lambda: pulse, training.pid)
            beater.be(1)
            turn(beater, 3)
            assert pulse.beats("demo") == {}
            assert beater.sight().trouble == ""
            training.send_signal(signal.SIGCONT)
            wait_for(lambda: not is_stopped(training.pid), "it goes on")
            turn(beater)
            assert pulse.beats("demo").keys() == {"3"}
        finally:
            training.kill()


def test_trouble_with_beats_lasts_until_a_beat_arrives_though_looks_succeed() -> None:
    class Deaf(MemoryPulse):
        hears = False

        def beat(self, run: str, key: str, beat: Beat) -> None:
            if not self.hears:
                raise JournalBusy("held")
            super().beat(run, key, beat)

    pulse = Deaf()
    beater = Beater(TASK, lambda: pulse, os.getpid())
    beater.be(1)
    turn(beater)
    first = beater.sight()
    turn(beater, 3)
    later = beater.sight()
    assert (later.trouble, later.looks) == ("held", 4)
    assert later.failing_us == first.failing_us > 0
    pulse.hears = True
    turn(beater)
    assert (beater.sight().trouble, beater.sight().failing_us) == ("", 0)


class Full(MemoryPulse):
    """Can be read, and takes nothing more once it is full."""

    full = False

    def beat(self, run: str, key: str, beat: Beat) -> None:
        if self.full:
            raise JournalFull("no room")
        super().beat(run, key, beat)


def test_a_failing_beat_counts_from_the_last_that_got_through_and_not_from_the_next_try() -> None:
    """The others go by the last beat they saw. A beat that is due a second later must not win the rank a second."""
    pulse = Full()
    beater = Beater(msgspec.structs.replace(TASK, beat_s=0.1), lambda: pulse, os.getpid())
    beater.be(1)
    began_us = now_us()
    beater.loop()
    beaten_us = now_us()
    pulse.full = True
    wait_for(lambda: beater.loop() >= 0 and beater.sight().trouble, "the next beat")
    assert began_us <= beater.sight().failing_us <= beaten_us < now_us() - 90_000
    assert beater.sight().beaten == (1, beater.sight().failing_us)


def test_one_that_was_stopped_for_longer_than_the_others_wait_counts_from_the_first_beat_that_fails() -> None:
    """It has been given up, and will be told: a store that fails once does not end it."""
    pulse = Full()
    pulse.full = True
    beater = Beater(TASK, lambda: pulse, os.getpid())
    long_ago_us = now_us() - round(TASK.dead_s * 1e6) - 1
    beater.be(1, beaten_us=long_ago_us)
    turn(beater)
    first = beater.sight().failing_us
    assert first > long_ago_us
    turn(beater)
    assert beater.sight().failing_us == first


def test_a_beater_that_replaces_another_counts_from_the_last_beat_of_that_one() -> None:
    pulse = Full()
    pulse.full = True
    second = Beater(TASK, lambda: pulse, os.getpid())
    before_us = now_us() - 1_000_000
    second.be(1, beaten_us=before_us)
    turn(second)
    assert second.sight().failing_us == before_us
    second.be(2)
    turn(second)
    assert second.sight().failing_us > before_us, "of another life"


def test_a_store_that_is_not_there_yet_is_tried_again() -> None:
    pulse = MemoryPulse()
    tries: list[int] = []

    def opens() -> Pulse:
        tries.append(1)
        if len(tries) < 3:
            raise JournalBusy("nobody answers")
        return pulse

    beater = Beater(TASK, opens, os.getpid())
    turn(beater)
    assert beater.sight().trouble == "nobody answers"
    assert beater.sight().looks == 0
    turn(beater, 2)
    assert (beater.sight().trouble, beater.sight().looks) == ("", 1)


def test_after_a_gap_it_says_since_when_it_has_looked_without_one() -> None:
    pulse = MemoryPulse()
    brief = Task("memory://", "demo", "3", beat_s=0.001, look_s=0.001, dead_s=0.02, op_s=1.0)
    beater = Beater(brief, lambda: pulse, os.getpid())
    turn(beater, 2)
    before = beater.sight().steady_us
    time.sleep(0.05)
    beater.loop()
    assert beater.sight().steady_us == beater.sight().looked_us > before
