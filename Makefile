# Targets of this repository. `make` prints them.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo case-study incident test unit integration lint types arch cases format bench docs bench-irrevon bench-irrevon-check up down doctor clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  make %-19s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## create .venv with everything in it

$(STAMP): pyproject.toml
	@PYTHON='$(PYTHON)' VENV='$(VENV)' bash tools/setup.sh && touch $@

demo: setup ## the main job on an embedded Kafka and PostgreSQL
	@$(BIN)/python -m demo

case-study: setup ## failed trips that are undone, and an agent that loops, on an embedded Kafka and PostgreSQL
	@$(BIN)/python -m demo.case_study $(CASE_STUDY)

incident: setup ## play the incident of docs/walkthrough.md anew, into .landed/incident.landed
	@rm -f .landed/incident.landed && $(BIN)/python -m demo.incident .landed/incident.landed $(INCIDENT)

test: setup ## everything that is checked: lint, types, architecture, tests on every Python found
	@bash tools/test.sh

unit: setup ## the tests that need no server
	@$(BIN)/pytest -q tests/unit tests/property tests/contract tests/simulation

integration: setup ## the tests on a real Kafka and PostgreSQL
	@$(BIN)/pytest -q -n 2 --dist loadfile tests/integration tests/e2e

lint: setup ## style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## strict types
	@$(BIN)/mypy && $(BIN)/mypy demo bench --exclude bench/irrevon

arch: setup ## which package may import which
	@$(BIN)/lint-imports

cases: setup ## reported failures, played against the product's own code in simulated time
	@$(BIN)/python -m landed.testing.cases tests/cases/cases.yaml

format: setup ## rewrite in the one format
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: setup ## one durable effect against a hand-made table, and the rebuild: minutes, on an otherwise idle machine
	@$(BIN)/python -m bench $(BENCH)

bench-irrevon: setup ## 72 trials of seven faults, written by others, over the real product and their baselines: minutes
	@bash tools/bench_irrevon.sh $(BENCH_IRREVON)

bench-irrevon-check: setup ## that its trials befall the product as they are meant, by the events on the ledger: needs the package
	@$(BIN)/pytest -q bench/irrevon

docs: setup ## rewrite the documents that are made from the code
	@$(BIN)/landed asyncapi > docs/asyncapi.yaml

up: setup ## start the embedded servers
	@$(BIN)/landed up

down: setup ## stop them
	@$(BIN)/landed down

doctor: setup ## what is wrong, and what to do
	@$(BIN)/landed doctor

clean: ## delete environments and caches
	@rm -rf $(VENV) .venvs .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
