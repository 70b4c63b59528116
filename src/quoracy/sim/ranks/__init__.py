"""Ranks without a coordinator, simulated: processes, the store they share, what goes wrong, and what must hold."""

from quoracy.sim.ranks.life import Life, Outcome, live

__all__ = ["Life", "Outcome", "live"]
