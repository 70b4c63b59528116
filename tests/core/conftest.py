"""``pytest tests/core --rewrite-vectors`` writes the recorded vectors and fixtures anew.

What a released Quoracy wrote must be read for ever: rewriting is for what no release has written yet.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-vectors", action="store_true", default=False, help="record the vectors anew")


@pytest.fixture
def rewrite_vectors(request: pytest.FixtureRequest) -> bool:
    """False also when this file was found too late to take part in reading the command line."""
    return bool(request.config.getoption("--rewrite-vectors", default=False))
