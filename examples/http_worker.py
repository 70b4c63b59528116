"""A worker that speaks HTTP and needs nothing but the standard library: what another language would do as well.

quoracy serve &
quoracy run create demo
python examples/http_worker.py http://127.0.0.1:3000 w1 100

It prints a line for each barrier it passes. Kill it and start it again, kill the coordinator and start that again: it
goes on where the others are.
"""

import http.client
import json
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

PAUSE_S = 0.2
NOT_NOW = {"still_waiting", "outcome_unknown", "overloaded", "draining", "not_serving", "too_fast", "journal_busy"}
BEGIN_AGAIN = {"member_gone", "stale_token"}
"""This incarnation was declared dead, or the run was rolled back: register again and recover."""


class Refused(Exception):
    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail", problem))
        self.code = problem.get("code", "")


def post(url: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    """Until it is answered: repeating is safe, since the coordinator knows the request by its nonce, seq or step."""
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    while True:
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                told: dict[str, Any] = json.load(answer)
                return told
        except urllib.error.HTTPError as error:
            refused = Refused(json.load(error))
            if refused.code not in NOT_NOW:
                raise refused from None
        except (OSError, http.client.HTTPException):
            pass  # the coordinator is away: it comes back with everything that it has acknowledged
        time.sleep(PAUSE_S)


class Life:
    """One incarnation of the worker, from registering to the end."""

    def __init__(self, url: str, name: str) -> None:
        me = post(f"{url}/api/runs/demo/workers", {"member": name, "nonce": secrets.token_hex(16)})
        self.home = f"{url}/api/runs/demo/workers/{name}"
        self.me = {"incarnation": me["incarnation"]}
        self.token = me["token"]
        self.rank = int(me["result"]["rank"])
        self.interval_s = me["result"]["heartbeat_interval_s"]
        self.seq = 0
        self.over = threading.Event()

    def report(self, state: str, fence: int = 0) -> dict[str, Any]:
        """Answers how the worker stands: its state, the fence, and where each barrier is."""
        self.seq += 1
        return post(f"{self.home}/state", {**self.me, "seq": self.seq, "state": state, "fence": fence}, self.token)

    def beat(self) -> None:
        seq = 0
        while not self.over.wait(self.interval_s):
            seq += 1
            try:
                seen = post(f"{self.home}/heartbeat", {**self.me, "seq": seq}, self.token)
            except Refused:
                return  # whoever trains is told the same
            self.token = seen["token"] or self.token

    def train(self, steps: int) -> None:
        stands = self.report("ready")
        if stands["state"] == "Recovering":
            # load the last checkpoint
            stands = self.report("idle", stands["fence"])
        while (step := stands["barriers"].get("step", (0, -1))[1] + 1) < steps:
            # train this step
            arrival = {**self.me, "step": step, "fence": stands["fence"]}
            passage = post(f"{self.home}/barriers/step", arrival, self.token)
            if passage["released"]:
                print(json.dumps(passage), flush=True)
                stands["barriers"]["step"] = (passage["generation"], step)
            else:  # aborted, for all alike: look where the barrier is, and go on from there
                print(passage["reason"], file=sys.stderr)
                stands = self.report("idle", stands["fence"])
        self.seq += 1
        post(f"{self.home}/leave", {**self.me, "seq": self.seq, "reason": "done"}, self.token)


def work(url: str, name: str, steps: int) -> int:
    while True:
        life = Life(url, name)
        beating = threading.Thread(target=life.beat, daemon=True)
        beating.start()
        try:
            life.train(steps)
            return life.rank
        except Refused as refused:
            if refused.code not in BEGIN_AGAIN:
                raise
        finally:
            life.over.set()
            beating.join()


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
