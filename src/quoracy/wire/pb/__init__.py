"""Written by ``python -m quoracy.wire.generate`` from ``proto/``: do not change by hand."""
