"""``python -m quoracy.wire.generate``: writes ``wire/pb/`` from the files in ``proto/``.

Needs grpcio-tools, which is not needed to run Quoracy. The version is pinned for development, so that the same file
gives the same code everywhere; a test generates anew and compares.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

PROTO: Final = "quoracy/v1/coordinator.proto"
FEDERATED: Final = "quoracy/v1/federated.proto"
WITNESSED: Final = "quoracy/v1/witnessed.proto"
ETCD: Final = "etcd/etcd.proto"
"""What we say to etcd: messages only, its methods are called by name."""
PACKAGE: Final = "quoracy.wire.pb"
ROOT: Final = Path(__file__).parents[3]


def generate(proto: Path, out: Path, which: str = PROTO) -> list[str]:
    """Write the code for ``which`` under ``proto`` flat into ``out``, and say which files that are."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        arguments = [
            "protoc", f"-I{proto}", f"-I{resources.files('grpc_tools') / '_proto'}", f"--python_out={made}",
            f"--pyi_out={made}", *([f"--grpc_python_out={made}"] if which != ETCD else []), which,
        ]  # fmt: skip
        if protoc.main(arguments) != 0:
            raise SystemExit(f"protoc does not take {proto / which}")
        files = sorted(made.rglob("*.py*"))
        for path in files:
            text = path.read_text(encoding="utf-8").replace("from quoracy.v1 import", f"from {PACKAGE} import")
            (out / path.name).write_text(text, encoding="utf-8")
        return [path.name for path in files]


def describe(proto: Path) -> bytes:
    """The FileDescriptorSet of what we promise, with what that imports."""
    from grpc_tools import protoc

    promised = [PROTO, *(more for more in (FEDERATED, WITNESSED) if (proto / more).exists())]
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "described.binpb"
        arguments = [
            "protoc", f"-I{proto}", f"-I{resources.files('grpc_tools') / '_proto'}", f"--descriptor_set_out={made}",
            "--include_imports", *promised,
        ]  # fmt: skip
        if protoc.main(arguments) != 0:
            raise SystemExit(f"protoc does not take {', '.join(str(proto / one) for one in promised)}")
        return made.read_bytes()


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(
        prog="python -m quoracy.wire.generate", description="Writes wire/pb from proto/."
    ).parse_args(arguments)
    out = Path(__file__).parent / "pb"
    made = [name for which in (PROTO, FEDERATED, WITNESSED, ETCD) for name in generate(ROOT / "proto", out, which)]
    sys.stdout.write(f"written: {', '.join(made)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
