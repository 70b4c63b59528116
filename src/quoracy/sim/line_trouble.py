"""What goes wrong with connections and heartbeat processes of members that use the SDK, whatever kind of run they are
in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quoracy.sim.lines import Line, Training
from quoracy.sim.processes import SimProcess
from quoracy.sim.streams import CALM, ROUGH
from quoracy.sim.trouble import Trouble
from quoracy.sim.world import MS


class LineTrouble(Trouble):
    def line_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            self.break_session, self.break_heartbeats, self.break_both, self.lose_heartbeats, self.lose_heartbeats,
            self.stop_heartbeats, self.freeze, self.hold_the_gil, self.hold_the_gil, self.hold_the_gil,
            self.rough_dialing, self.restart_orderly,
        )  # fmt: skip

    def _processes(self) -> Sequence[SimProcess]:
        raise NotImplementedError

    def _training(self) -> tuple[SimProcess, Training] | None:
        found = [(process, process.training) for process in self._processes() if process.present()]
        trainings = [(process, training) for process, training in found if training is not None]
        return self.world.rng.choice(trainings) if trainings else None

    # -- connections ------------------------------------------------------------------------------------------------

    def _break(self, line: Line) -> None:
        """Both ends are told, or one, or none; and whoever writes to nobody is told so, or not."""
        if line.end is not None:
            here, there = self.world.rng.choice(((True, True), (True, False), (False, True), (False, False)))
            answers = self.world.chance(0.5)
            self.world.note("fault", lambda: f"told here: {here}, told there: {there}, answers: {answers}")
            line.end.drop(here, there, answers)

    def break_session(self) -> None:
        if (found := self._training()) is not None:
            self._break(found[1].line)

    def break_heartbeats(self) -> None:
        if (found := self._training()) is not None and found[1].beats is not None:
            self._break(found[1].beats.line)

    def break_both(self) -> None:
        """As when the address of a machine changes."""
        if (found := self._training()) is not None:
            self._break(found[1].line)
            if found[1].beats is not None:
                self._break(found[1].beats.line)

    def rough_dialing(self) -> None:
        """Connects fail, or are accepted late, after others, or without anybody knowing; and all connections of one
        member break, or of all."""
        self.streams.dialing = ROUGH
        self._later(500 * MS, 3_000 * MS, self._smooth_dialing)
        for process in self._processes():
            if process.training is not None and process.present() and self.world.chance(0.5):
                self._break(process.training.line)
                if process.training.beats is not None:
                    self._break(process.training.beats.line)

    def _smooth_dialing(self) -> None:
        self.streams.dialing = CALM

    # -- processes --------------------------------------------------------------------------------------------------

    def lose_heartbeats(self) -> None:
        """The heartbeat process dies: another one is started at the next call."""
        if (found := self._training()) is not None and found[1].beats is not None:
            found[1].beats.kill()

    def stop_heartbeats(self) -> None:
        if (found := self._training()) is not None and found[1].beats is not None:
            found[1].beats.stop()
            self._later(200 * MS, 6_000 * MS, found[1].beats.go_on)

    def freeze(self) -> None:
        """The training and its heartbeat process, as with a container."""
        if (found := self._training()) is not None:
            process, training = found
            process.stop()
            if training.beats is not None:
                training.beats.stop()
            self._later(200 * MS, 6_000 * MS, self._thaw, process, training)

    def _thaw(self, process: SimProcess, training: Training) -> None:
        if training.beats is not None:
            training.beats.go_on()
        process.go_on()

    def hold_the_gil(self) -> None:
        """The training does nothing but compute, for longer than every time-out. Its heartbeats go on."""
        if (found := self._training()) is not None:
            found[0].stop()
            self._later(2_600 * MS, 7_000 * MS, found[0].go_on)

    def end_trouble(self) -> None:
        super().end_trouble()
        for process in self._processes():
            if process.training is not None and process.training.beats is not None:
                process.training.beats.go_on()
