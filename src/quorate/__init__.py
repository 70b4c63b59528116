"""Quorate: the control plane for training on machines that come and go.

core/      the machines, the fold and the host's logic: pure
ports/     what the outside must provide
stores/    journals, pulses and mailboxes: in memory, in SQLite
hosts/     shells over the host's logic
sdk/       what a training script imports
sim/       the world in a seeded event heap, with faults and checkers
testing/   the suites every store must pass
bench/     what `quorate bench` measures
cli/       the command line, one file per verb
"""

from quorate.version import __version__

__all__ = ["__version__"]
