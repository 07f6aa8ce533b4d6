# Evertick: everything one does with it, by name. `make help` lists what there is.
#
# Needs Python 3.11 or newer, make and a package index. The first call builds a virtual environment; later calls
# build it again only when pyproject.toml has changed.
#
#   make test PYTHON=python3.12     another Python; it gets an environment of its own (.venv-python3.12)

PYTHON ?= python3
VENV ?= $(if $(filter file default undefined,$(origin PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
# Half as many again as there are cores: many tests wait for processes that they have started.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
PEERS ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run demo test test-long test-short e2e-openclaw check lint types compiled docs bench bench-peers clean python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## Watch a message being written, scheduled, and deleted five seconds later
	@$(BIN)/python examples/chat/demo.py

demo: $(VENV)/.installed-dev ## Look at the dashboard of a small shop with a simulated week behind it
	@$(BIN)/evertick dev --demo

test: $(VENV)/.installed-dev ## Lint, check types, run every test but the long ones
	@# Beside each other: mypy takes ten seconds of one core. If one fails, no test begins.
	@$(MAKE) --no-print-directory -j 3 lint types compiled
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not long' $(ARGS)

test-long: $(VENV)/.installed-dev ## Run the long tests: browsers, programs, benchmarks, all cases of long tables
	EVERTICK_TEST_DEPTH=all $(BIN)/python -m pytest -n $(WORKERS) -m '(long or random) and not on_request' $(ARGS)

test-short: $(VENV)/.installed-dev ## Run the tests of functions, jobs and worlds on SQLite: a first look at another Python
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not postgres and not processes and not long' --timeout 120 \
	  tests/base tests/rules tests/app tests/testing $(ARGS)

e2e-openclaw: $(VENV)/.installed-dev ## Drive a real OpenClaw gateway from npm through the contract of gateways (needs npm, 800 MB)
	$(BIN)/python -m tests.gateway.e2e_openclaw $(ARGS)

lint: $(VENV)/.installed-dev ## Look for mistakes and unusual formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## Check the types
	$(BIN)/mypy --strict

compiled: $(VENV)/.installed-dev
	@# Once, as is what pytest makes of its asserts: the tests start some thousand processes, and
	@# PYTHONDONTWRITEBYTECODE may keep each from doing it.
	@$(BIN)/python -m compileall -q src

docs: $(VENV)/.installed-dev ## Build the documentation's site in build/site; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo 'build/site/index.html'

check: ## What CI runs: the tests, then simulation, kills and fuzzing (half an hour on two cores)
	PYTHON='$(PYTHON)' VENV='$(VENV)' bash .ci/run

bench: $(VENV)/.installed-dev ## Measure speed beside the physical limit of the same work
	$(BIN)/python -m benchmarks.run $(ARGS)

bench-peers: $(VENV)/.installed-dev ## Measure other schedulers in the same run (PEERS="huey pgqueuer" for some)
	$(BIN)/python -m benchmarks.peers.run $(PEERS) $(ARGS)

clean: ## Remove what make has built, the environments included
	rm -rf .venv .venv-* build dist benchmarks/results docs/reference/generated
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environments. A stamp is newer than pyproject.toml when what it names is installed.

python:
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "make: there is no '$(PYTHON)' on this machine; name a Python 3.11 or newer: make ... PYTHON=python3.12"; \
	  exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: Evertick needs Python 3.11 or newer; '$(PYTHON)' is: $$('$(PYTHON)' -V 2>&1 | head -n 1)"; \
	  echo "make: name a newer one: make ... PYTHON=python3.12"; \
	  exit 1; } 2>/dev/null

$(BIN)/python: | python
	'$(PYTHON)' -m venv '$(VENV)'

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed
