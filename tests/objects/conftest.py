"""The server that some of these tests need."""

from tests.objects.weed import weed

__all__ = ["weed"]
