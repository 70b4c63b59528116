__version__ = "0.2.0"

INSTALL_TORCH = "pip install torch==2.13.0"
"""What works wherever Quoracy itself came from: a checkout, a wheel or an index. The version is that of the extra."""
