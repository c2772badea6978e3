# Every target prepares .venv automatically; only python3 >= 3.11 is required.

WORKERS ?= 2
PYTHON ?= python3 python3.13 python3.12 python3.11 python3.14
UV ?= $(or $(wildcard .venv/bin/uv),uv)

BIN := .venv/bin
READY := .venv/.ready
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
DURATIONS := --durations=0 --durations-min=0.1
PIP_INSTALL := $(BIN)/python .venv/pip.whl/pip install \
	--quiet --quiet --no-input --disable-pip-version-check --no-deps
# Packages come from the public index, whatever index this machine is configured for.
LOCK_INDEX := --no-config --default-index https://pypi.org/simple
EXPORT := export --quiet --no-config --frozen --format requirements.txt \
	--no-emit-project

# Ruff checks these five rules on each line, with a reason for each exception.
BANDIT := --quiet --recursive --severity-level medium --skip B104,B108,B303,B608,B704

# The tool includes these schemas.
VENDOR := --builtin-schema vendor
COMPOSE := --builtin-schema vendor.compose-spec

# Tests create thousands of small databases: in memory, if it has room.
ROOM_MB = $(shell df --block-size=1M --output=avail /dev/shm 2>/dev/null | tail -n 1)
SCRATCH = $(shell [ 0$(ROOM_MB) -gt 2000 ] && echo /dev/shm || echo $${TMPDIR:-/tmp})

# Otherwise each program that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test machine programs postgres check bench simulate \
	faults-short faults site sbom lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

venv: $(READY) ## prepare .venv from the lock (nothing to do when it is up to date)

demo: $(READY) ## run the daemon against the reference server, with a simulated shop
	$(BIN)/backhaul demo

test: $(READY) ## run the tests (WORKERS=2 processes)
	TMPDIR=$(SCRATCH) $(BIN)/pytest -n $(WORKERS) -m "not faults and not programs" \
		--prepare-on-postgres

machine: $(READY) ## fetch the Debian that a test boots, once (as root)
	PYTHONPATH=tests $(BIN)/python -m service.machine

programs: $(READY) ## run the tests that start whole programs and real servers
	$(BIN)/pytest -n $(WORKERS) -m "programs and not faults"

postgres: $(READY) ## run on PostgreSQL what receives events and what sends commands
	TMPDIR=$(SCRATCH) $(BIN)/pytest -n $(WORKERS) -m "postgres and not faults" \
		tests/ingest tests/push

check: $(READY) ## format, lint, types, import contracts, and the docs held to the code
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy bootstrap.py
	$(BIN)/lint-imports
	$(BIN)/bandit $(BANDIT) daemon connectors
	$(BIN)/hadolint docker/Dockerfile docker/Dockerfile.patroni
	$(BIN)/check-jsonschema $(COMPOSE) docker/compose*.yaml
	$(BIN)/check-jsonschema $(VENDOR).github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema $(VENDOR).dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema $(VENDOR).github-issue-forms \
		.github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(BIN)/pytest tests/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY) ## measure throughput and latency (BENCH=reference: some rows only)
	PYTHONPATH=tests $(BIN)/python -m bench $(BENCH)

simulate: $(READY) ## whole daemons in simulated worlds, planted bugs (SEED=n shows one)
	PYTHONPATH=tests $(BIN)/python -m simulation

faults-short: $(READY) ## kill, cut, fuzz and fill disks, the short form
	FAULTS=short $(BIN)/pytest -n $(WORKERS) -m faults $(DURATIONS)

faults: $(READY) ## the same in the long form
	FAULTS=long $(BIN)/pytest -m faults $(DURATIONS)

site: $(READY) ## build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

sbom: $(READY) ## write a bill of materials (CycloneDX) to dist/
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements --output-reproducible \
		--pyproject pyproject.toml --output-file dist/sbom.json requirements.lock

lock: ## update the lock files (needs uv; newest versions: UPGRADE=--upgrade)
	$(UV) lock $(UPGRADE) $(LOCK_INDEX)
	$(UV) $(EXPORT) --no-dev --extra all --output-file requirements.lock
	$(UV) $(EXPORT) --all-groups --all-extras --output-file requirements-dev.lock

clean: ## remove .venv, caches and build products
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find daemon connectors tests -name __pycache__ -prune -exec rm -rf {} +

# A usable .venv is updated in place, any other is created again. It starts without
# pip, which Debian's python3 lacks: bootstrap.py fetches the pip that the lock pins.
$(READY): requirements-dev.lock pyproject.toml bootstrap.py
	@for python in $(BIN)/python $(PYTHON); do \
		$$python -c '$(NEW_ENOUGH)' 2>/dev/null || continue; \
		[ $$python = $(BIN)/python ] && exit 0; \
		echo "Preparing .venv with $$python, which takes a moment"; \
		exec $$python -m venv --clear --without-pip .venv; \
	done; \
	echo "No Python 3.11 or newer among: $(PYTHON). Install one, or name it:" \
		"make PYTHON=/path/to/python3" >&2; \
	exit 1
	@$(BIN)/python bootstrap.py requirements-dev.lock .venv/pip.whl
	@$(PIP_INSTALL) --require-hashes --requirement requirements-dev.lock
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@
