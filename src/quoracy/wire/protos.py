"""``python -m quoracy.wire.protos``: prints the folder of the .proto files, for the ``-I`` of a protoc in any language.

An installed Quoracy has them beside its code; a checkout has them where they are written, in ``proto/``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PACKAGED: Final = Path(__file__).parents[1] / "proto"
WRITTEN: Final = Path(__file__).parents[3] / "proto"


def folder() -> Path:
    """With ``quoracy/v1/coordinator.proto`` and the others in it."""
    return PACKAGED if PACKAGED.is_dir() else WRITTEN


if __name__ == "__main__":
    sys.stdout.write(f"{folder()}\n")
