# Everything that is made lies in .venv/ (the Python environment) and .local/ (jars, brokers, logs, demo records).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed-dev
DEMO := $(VENV)/.installed-demo
ARCHIVE := .local/kafka.jsa

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup demo lint check test matrix docs pictures fuzz chaos steps many bench clean programs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## install the package and its tools into .venv; check Java
	@$(BIN)/python -m dev.programs java

# What a group needs is in .venv, and that it was: a change of what is pinned installs again.
$(SETUP): pyproject.toml dev/constraints.txt | $(BIN)/python
	@$(BIN)/python -m dev.install dev
	@touch $(DEMO) $@

$(DEMO): pyproject.toml dev/constraints.txt | $(BIN)/python
	@$(BIN)/python -m dev.install demo
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is $$($(PYTHON) -V): Python 3.11 or newer is needed, run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "$(PYTHON) cannot create a virtual environment: install its venv module (Debian: apt-get install python3-venv)"; rm -rf $(VENV); exit 1; }

demo: $(DEMO) ## load real records into a local Kafka and run the example Dag on them; UI=1 leaves Airflow running
	@$(BIN)/python -m dev.programs java
	@$(BIN)/python -m dev.demo $(if $(UI),--ui)

programs: setup # of the system, which tests need
	@$(BIN)/python -m dev.programs postgresql kerberos chromium

lint: setup ## lint, format, types, layers
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint ## lint and the unit tests
	@$(BIN)/python -m pytest -q --numprocesses 3 --no-loadscope-reorder tests/unit

test: ## lint, unit tests, and every feature once on real parts; ALL=1: every test
	@$(MAKE) --jobs 2 programs lint $(ARCHIVE)
	@$(BIN)/python -m pytest -q --numprocesses 3 --no-loadscope-reorder $(if $(ALL),,-m 'not nightly') tests

$(ARCHIVE): $(SETUP)
	@$(BIN)/python -m dev.make_class_archives

docs: setup ## build the site of docs/ and of the public API in .local/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "written to .local/docs/index.html"

pictures: programs ## draw the docs' pictures anew, and take those of the page from a real browser
	@$(BIN)/python -m dev.drawings
	@PICTURES=1 $(BIN)/python -m pytest -q tests/integration/page/browser

matrix: setup ## the wheel beside older and newer Airflows, Sparks and Pythons; some 30 minutes, and what has passed isn't run again
	@$(BIN)/python -m dev.matrix $(ONLY)

fuzz: setup ## check the waits' answers on 1,000 random histories against an oracle; make test checks 20
	@FUZZ_HISTORIES=1000 $(BIN)/python -m pytest -q --timeout 3600 tests/integration/fuzz

chaos: setup $(ARCHIVE) ## load 1,000 windows while everything fails, and check that they tile; make test loads 6
	@CHAOS_WINDOWS=$${CHAOS_WINDOWS:-1000} CHAOS_SEED=$${CHAOS_SEED:-$$(date +%s)} \
	  $(BIN)/python -m pytest -q -s --timeout 3600 tests/chaos

steps: setup $(ARCHIVE) ## pause a load at every step; make test ALL=1 takes some of them
	@PAUSES=all $(BIN)/python -m pytest -q --timeout 3600 tests/integration/spark/sinks/test_pauses.py

many: setup $(ARCHIVE) ## load 1,000 windows with one Spark run, whose driver is killed 20 times; make test ALL=1 takes 60
	@MANY_WINDOWS=$${MANY_WINDOWS:-1000} MANY_KILLS=$${MANY_KILLS:-20} \
	  $(BIN)/python -m pytest -q -s --timeout 3600 tests/integration/airflow/test_many_windows_killed.py

bench: setup ## measure this package against its peers, on real brokers
	@$(BIN)/python -m tests.benchmarks

clean: ## remove .local and .venv
	@rm -rf .local $(VENV)
