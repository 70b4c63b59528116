# Few verbs. Each sets up what it needs by itself: a virtual environment in .venv, made anew when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check soak bench docs clean

demo: $(READY)  ## a whole run on this machine, with faults on the way
	$(BIN)/quorate demo cluster

test: check  ## everything that must hold, in a few minutes
	$(BIN)/quorate sim cluster --seeds 1..50
	$(BIN)/pytest --numprocesses 2

check: $(READY)  ## style, types, layers, stale documents
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m quorate.docs --check

soak: $(READY)  ## the long ones
	$(BIN)/quorate sim cluster --seeds 1..500
	QUORATE_SOAK=1 $(BIN)/pytest --numprocesses 2 tests/sim tests/stores tests/e2e

bench: $(READY)  ## every measurement, with its target
	$(BIN)/quorate bench fold
	$(BIN)/quorate bench journal
	$(BIN)/quorate bench sim
	$(BIN)/quorate bench heartbeats
	$(BIN)/quorate bench barrier
	$(BIN)/quorate bench memory

docs: $(READY)  ## write the generated pages
	$(BIN)/python -m quorate.docs

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
