# Few verbs. Each sets up what it needs by itself: a virtual environment in .venv, made anew when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.base
READY := .venv/.ready

# Compiled modules are kept, whatever the environment says: the tests start two thousand processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test tools check style types layers pages lives collected shake bench docs release clean
.PHONY: soak soak-sim soak-faults soak-hostile soak-integrations soak-browser

demo: $(BASE)  ## a whole run on this machine, with faults on the way
	$(BIN)/quoracy demo cluster

test: tools $(READY)  ## everything that must hold, in a few minutes
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target check lives collected
	$(BIN)/pytest --numprocesses 5 --dist worksteal

tools:  ## what the tests need beside Python
	.ci/tools

check: types style layers pages  ## style, types, layers, stale documents

style: $(READY)
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

pages: $(READY)
	$(BIN)/python -m quoracy.docs --check

lives: $(READY)  ## two hundred, simulated
	$(BIN)/quoracy sim cluster --seeds 1..50
	$(BIN)/quoracy sim ranks --seeds 1..50
	$(BIN)/quoracy sim federated --seeds 1..50
	$(BIN)/quoracy sim witnessed --seeds 1..50

collected: $(READY)  ## every test can be imported; and is compiled once, and not by each process that runs tests
	@$(BIN)/pytest --collect-only --quiet --quiet >.venv/collected || { cat .venv/collected; exit 1; }

shake: tools $(READY)  ## TESTS=…, twenty times beside a busy process per core and once with SIGINT ignored
	$(BIN)/python tests/shake.py $(TESTS)

soak: soak-sim soak-faults soak-hostile soak-integrations soak-browser  ## the long ones, all of them

soak-sim: $(READY)  ## two thousand lives, simulated, and every state that the explorer reaches
	$(BIN)/quoracy sim cluster --seeds 1..500
	$(BIN)/quoracy sim ranks --seeds 1..500
	$(BIN)/quoracy sim federated --seeds 1..500
	$(BIN)/quoracy sim witnessed --seeds 1..500
	QUORACY_SOAK=sim $(BIN)/pytest --numprocesses 2 --dist worksteal

soak-faults: tools $(READY)  ## real processes, killed at every point
	QUORACY_SOAK=faults $(BIN)/pytest --numprocesses 2 --dist worksteal

soak-hostile: tools $(READY)  ## requests that nobody would send, and many at once
	QUORACY_SOAK=hostile $(BIN)/pytest --numprocesses 2 --dist worksteal

soak-integrations: tools $(READY)  ## demonstrations and measurements as a whole, on every store
	QUORACY_SOAK=integrations $(BIN)/pytest --numprocesses 2 --dist worksteal

soak-browser: $(READY)  ## pages and pictures in Chromium
	.ci/tools browser
	QUORACY_SOAK=browser $(BIN)/pytest --numprocesses 2 --dist worksteal

bench: $(READY)  ## every measurement, with its target
	$(BIN)/quoracy bench fold
	$(BIN)/quoracy bench journal
	$(BIN)/quoracy bench sim
	$(BIN)/quoracy bench heartbeats
	$(BIN)/quoracy bench barrier
	$(BIN)/quoracy bench sdk
	$(BIN)/quoracy bench memory
	$(BIN)/quoracy bench grpc
	$(BIN)/quoracy bench http
	$(BIN)/quoracy bench ranks
	$(BIN)/quoracy bench aggregate
	$(BIN)/quoracy bench rounds
	$(BIN)/quoracy bench participants
	$(BIN)/quoracy bench witnessed

docs: $(READY)  ## write the generated pages
	$(BIN)/python -m quoracy.docs

release: $(READY)  ## record what this version promises: the .proto files and the OpenAPI document
	$(BIN)/python -m quoracy.docs.release

$(BASE): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $(BASE)

# pip compiles on one core. Some packages have files that are not meant to be compiled: those are nobody's concern.
$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 .venv/lib src || true
	touch $(BASE) $(READY)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
