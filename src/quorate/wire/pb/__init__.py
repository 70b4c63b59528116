"""Written by ``python -m quorate.wire.generate`` from ``proto/``: do not change by hand."""
