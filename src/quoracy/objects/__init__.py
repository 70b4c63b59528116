"""Objects: weights and other large values. The map of the room:

    opening.py    open_objects: a store by its URL
    local.py      LocalObjects: files in a directory; with uploads.py, walk.py and durable.py
    s3.py         S3Objects: S3 and whoever speaks it; with bucket.py, claims.py, parts.py and failures.py; imported
                  only where it is used
    memory.py     MemoryObjects: for tests, and runs that need not survive
    checking.py   chunks, and their digest on the way

A store knows bytes and keys. What is in an object is none of its business.
"""

from quoracy.objects.local import LocalObjects
from quoracy.objects.memory import Depot, MemoryObjects
from quoracy.objects.opening import open_objects

__all__ = ["Depot", "LocalObjects", "MemoryObjects", "open_objects"]
