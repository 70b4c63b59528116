"""What a training script imports. So far the logic of a worker's session, without I/O: shells drive it."""

from quorate.sdk.session import Note, Session, Stage

__all__ = ["Note", "Session", "Stage"]
