# SPDX-License-Identifier: Apache-2.0
# The developer's interface. Each target is one small script under scripts/.
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev parts dashboard guest-image up down test test-quick test-signals \
	ci-long test-forms durations lock catalogue lint format bench build soak clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## .venv with rdd and its dependencies
	@scripts/setup.sh

setup-dev: ## the same with the tools for tests and linters, in locked versions
	@scripts/setup.sh dev

parts: ## the real programs that tests use (dockerd, qemu, kubectl, …)
	@scripts/test-parts.sh

dashboard: ## the page of the dashboard, with Node.js from PyPI and packages from npm
	@[ -x .venv/bin/rdd ] || scripts/setup.sh
	@scripts/dashboard.sh

guest-image: ## the guests of virtual machines, from Debian packages (needs root, 90 s)
	@scripts/guest-image.sh

up: ## set up and run rdd
	@scripts/up.sh

down: ## undo `make up`
	@scripts/down.sh

test: setup-dev parts lint ## set up, lint, and run the whole suite against real parts, offline
	@scripts/test.sh

test-quick: setup-dev ## run the suite; skip tests whose real part is missing, and print which
	@.venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder

test-signals: setup-dev parts ## tests of signals, processes and the mirror, 5 times under load
	@scripts/test-signals.sh

ci-long: setup-dev parts ## attacks in their short form: crash rounds, load, fuzzing (12 minutes)
	@scripts/ci-long.sh

test-forms: setup-dev parts lint ## the suite as from nohup and cron, under load (hours)
	@scripts/test-forms.sh

durations: setup-dev parts ## measure which test files are slow (tests/durations.txt)
	@RDD_RECORD_DURATIONS=1 scripts/test.sh

lock: setup-dev ## lock the versions of development tools (requirements/dev.txt)
	@scripts/lock.sh

catalogue: setup-dev ## digests of the catalogue of tools, from the publishers (ARGS=--latest: new versions)
	@.venv/bin/python scripts/catalogue.py $(ARGS)

lint: setup-dev ## style, types, import layers, dependencies, spelling
	@scripts/lint.sh

format: setup-dev ## rewrite the sources in the project's format
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

bench: setup-dev ## measure, and write the results into docs/performance.md (6 minutes; ARGS=--quick: 1)
	@.venv/bin/python -m compileall -q src
	@.venv/bin/python -m bench.everything $(ARGS)

build: setup-dev dashboard ## wheel and sdist in dist/
	@.venv/bin/python -m hatchling build --directory dist

soak: setup-dev parts ## the attacks of ci-long and all randomised tests in their long form (hours)
	@scripts/soak.sh

clean: ## remove build results and caches
	@scripts/clean.sh
