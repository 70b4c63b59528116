"""A worker that speaks HTTP and needs nothing but the standard library: what another language would do as well.

quoracy serve &
quoracy run create demo
python examples/http_worker.py http://127.0.0.1:3000 w1 100
"""

import json
import secrets
import sys
import urllib.error
import urllib.request
from typing import Any


def post(url: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    """Raises urllib.error.HTTPError; its body is a problem that says what to do."""
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        told: dict[str, Any] = json.load(answer)
    return told


def arrive(home: str, token: str, arrival: dict[str, Any]) -> dict[str, Any]:
    """Wait at the barrier for as long as it takes: the same arrival again goes on waiting."""
    while True:
        try:
            return post(f"{home}/barriers/step", arrival, token)
        except urllib.error.HTTPError as error:
            if json.load(error)["code"] != "still_waiting":
                raise


def work(url: str, name: str, steps: int) -> int:
    runs = f"{url}/api/runs/demo"
    me = post(f"{runs}/workers", {"member": name, "nonce": secrets.token_hex(16)})
    home, token, life = f"{runs}/workers/{name}", me["token"], {"incarnation": me["incarnation"]}
    post(f"{home}/state", {**life, "seq": 1, "state": "ready"}, token)
    generation, step = me["barriers"].get("step", (0, -1))
    while step + 1 < steps:
        # train; send a heartbeat every me["result"]["heartbeat_interval_s"] seconds
        post(f"{home}/heartbeat", {**life, "seq": step + 2, "step": step + 1}, token)
        passage = arrive(home, token, {**life, "step": step + 1, "after": generation})
        generation, step = passage["generation"], passage["step"] if passage["released"] else step
    post(f"{home}/leave", {**life, "seq": 2, "reason": "done"}, token)
    return int(me["result"]["rank"])


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
