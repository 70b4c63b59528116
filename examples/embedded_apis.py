"""A coordinator inside a program, as a service: all three APIs, how large a fleet may be, when a silent worker is given
up, and where weights and checkpoints go.

    python examples/embedded_apis.py /srv/quoracy /srv/quoracy/checkpoints

What the arguments leave open comes from the environment: HEARTBEAT_INTERVAL (in milliseconds), STORAGE_BACKEND and
CHECKPOINT_BUCKET, RUST_LOG or QUORACY_LOG, QUORACY_DATA. Arguments win.
"""

import signal
import sys

from quoracy.coordinator import Coordinator


def open_service(folder, checkpoints=None):
    return Coordinator(folder, all_apis=True, max_workers=1000, heartbeat_timeout_s=30.0, checkpoints=checkpoints)


def main(folder, checkpoints=None):
    with open_service(folder, checkpoints) as coordinator:
        if not coordinator.ask("runs"):
            coordinator.create("demo")
        for api, address in coordinator.addresses.items():
            print(f"{api}: {address}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(*sys.argv[1:])
