# Few verbs. Each sets up what it needs by itself: a virtual environment in .venv, made anew when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.base
READY := .venv/.ready

.PHONY: demo test tools check soak bench docs release clean

demo: $(BASE)  ## a whole run on this machine, with faults on the way
	$(BIN)/quorate demo cluster

test: tools check  ## everything that must hold, in a few minutes
	$(BIN)/quorate sim cluster --seeds 1..50
	$(BIN)/quorate sim ranks --seeds 1..50
	$(BIN)/quorate sim federated --seeds 1..50
	$(BIN)/quorate sim witnessed --seeds 1..50
	$(BIN)/pytest --numprocesses 2

tools:  ## what the tests need beside Python
	.ci/tools

check: $(READY)  ## style, types, layers, stale documents
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m quorate.docs --check

soak: tools $(READY)  ## the long ones
	$(BIN)/quorate sim cluster --seeds 1..500
	$(BIN)/quorate sim ranks --seeds 1..500
	$(BIN)/quorate sim federated --seeds 1..500
	$(BIN)/quorate sim witnessed --seeds 1..500
	QUORATE_SOAK=1 $(BIN)/pytest --numprocesses 2 tests/sim tests/stores tests/e2e

bench: $(READY)  ## every measurement, with its target
	$(BIN)/quorate bench fold
	$(BIN)/quorate bench journal
	$(BIN)/quorate bench sim
	$(BIN)/quorate bench heartbeats
	$(BIN)/quorate bench barrier
	$(BIN)/quorate bench memory
	$(BIN)/quorate bench grpc
	$(BIN)/quorate bench http
	$(BIN)/quorate bench ranks
	$(BIN)/quorate bench aggregate
	$(BIN)/quorate bench rounds
	$(BIN)/quorate bench participants
	$(BIN)/quorate bench witnessed

docs: $(READY)  ## write the generated pages
	$(BIN)/python -m quorate.docs

release: $(READY)  ## record what this version promises: the .proto files and the OpenAPI document
	$(BIN)/python -m quorate.docs.release

$(BASE): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $(BASE)

$(READY): $(BASE)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
