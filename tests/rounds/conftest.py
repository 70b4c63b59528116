"""The S3 server that one of these tests needs."""

from tests.objects.weed import weed

__all__ = ["weed"]
