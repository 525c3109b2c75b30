# The front door. `make help` lists what it does; what a target needs on the machine it installs first.

SHELL := /bin/bash
CARGO ?= cargo
# Arguments for the program that a target runs: make run ARGS="--help"
ARGS ?=
# The file that keeps what `make bench` measures
RESULT ?= bench/results/latest.json
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# In CI nothing is built twice: without incremental data and line numbers a build takes a third less time.
ifdef CI
export CARGO_INCREMENTAL := 0
export CARGO_PROFILE_DEV_DEBUG := false
endif

.DEFAULT_GOAL := help
.PHONY: help run build test lint bench chaos clean setup

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Build the release binary and start everything on http://localhost:8000
	@scripts/setup build
	$(CARGO) build --release --locked -p hyperfleet
	$(TARGET_DIR)/release/hyperfleet up $(ARGS)

build: ## Build the release binary
	@scripts/setup build
	$(CARGO) build --release --locked -p hyperfleet

test: ## Run all tests, on every database and broker (ARGS="-p hyperfleet-core" narrows)
	@scripts/setup build postgres brokers guides terminal chaos kubernetes
	@CARGO="$(CARGO)" scripts/test --locked $(or $(ARGS),--workspace)

lint: ## Check format, lints and dependencies; warnings are errors
	@scripts/setup build lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@CARGO="$(CARGO)" scripts/dependencies

bench: ## Measure speed and size against their limits (ARGS="--seconds 1 --rounds 1 --clusters 1000")
	@scripts/setup build postgres brokers
	$(CARGO) build --release --locked -p hyperfleet -p hyperfleet-bench
	$(TARGET_DIR)/release/hyperfleet-bench $(ARGS) --json $(RESULT)

chaos: ## Play faults against three replicas for an hour and check what clients were told (ARGS="--minutes 5 --seed 7")
	@scripts/setup build postgres brokers chaos
	$(CARGO) build --release --locked -p hyperfleet -p hyperfleet-chaos
	$(TARGET_DIR)/release/hyperfleet-chaos $(ARGS)

clean: ## Remove what was built (databases stay)
	$(CARGO) clean

setup: ## Install what is missing on a Debian machine; silent when all is there
	@scripts/setup build lint postgres brokers guides terminal chaos kubernetes
