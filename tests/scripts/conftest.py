"""``pytest tests/scripts --rewrite`` writes what came out into the stories. Read the difference before it is kept."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", default=False, help="rewrite the stories in tests/scripts")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """False also when this file was found too late to take part in reading the command line."""
    return bool(request.config.getoption("--rewrite", default=False))
