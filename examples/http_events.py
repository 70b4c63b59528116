"""Follows a run over HTTP and misses nothing, whatever breaks in between; standard library only.

python examples/http_events.py http://127.0.0.1:3000 demo
"""

import http.client
import json
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit


def follow(url: str, run: str, last: str = "0") -> Iterator[dict[str, Any]]:
    """Every entry after ``last``, once and in order. Whoever stores the last number it handled may die at any time."""
    place = urlsplit(url)
    while True:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        try:
            connection.request("GET", f"/api/runs/{quote(run, safe='')}/events", headers={"last-event-id": last})
            fields: dict[str, str] = {}
            for line in map(bytes.decode, connection.getresponse()):
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif fields:
                    last = fields.get("id", last)
                    if fields.get("event") == "entry":
                        yield json.loads(fields["data"])
                    fields = {}
        except (OSError, http.client.HTTPException):
            time.sleep(1.0)
        finally:
            connection.close()


if __name__ == "__main__":
    for entry in follow(sys.argv[1], sys.argv[2]):
        print(entry["n"], *(event["type"] for event in entry["events"]))
