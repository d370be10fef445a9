# Every target sets up its own virtual environment in .venv from Python 3.11+, pip and nothing else.
# A stamp file remembers it, so that a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
TOOLS := $(VENV)/.tools-installed
COMPILED := $(VENV)/.kernels-compiled
NATIVE := $(VENV)/.native-built
SOURCES := $(shell find src -name '*.py')
INPUTS := pyproject.toml constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
PARTS := lint types unit

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers unit test-kube bench bench-paper bench-serve bench-emulation bench-real bench-profile format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(COMPILED)  ## see what tune buys over proportional, within a minute
	@$(BIN)/gpuyard demo

test: $(TOOLS)  ## run every check: lint, types, layers, tests
	@failed=""; \
	for part in $(PARTS); do \
		echo "== $$part"; \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then echo "make test: FAILED in:$$failed" >&2; exit 1; fi; \
	echo "make test: all passed: $(PARTS)"

lint: $(TOOLS)  ## part of test: ruff's rules and formatting
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . || \
		{ echo "lint: failed; 'make format' mends most of it" >&2; exit 1; }

types: $(TOOLS)  ## part of test: mypy, strict
	@$(BIN)/mypy

layers: $(TOOLS)  ## imports follow docs/architecture.md (the tests include it)
	@$(BIN)/pytest tests/test_layers.py

unit: $(TOOLS) $(COMPILED) $(NATIVE)  ## part of test: pytest on all cores
	@$(BIN)/pytest -n auto --dist worksteal

test-kube: $(TOOLS) $(NATIVE)  ## tasks that share GPUs on a real Kubernetes, built and started on this machine; needs root and Debian 12
	@$(BIN)/pytest testbed -rs

bench: $(COMPILED)  ## speed and scale, as ratios against baselines in the same run
	@$(BIN)/python -m benchmarks

bench-paper: $(COMPILED)  ## the paper's figures again; writes docs/fidelity.md
	@$(BIN)/python -m benchmarks.paper

bench-serve: $(TOOLS)  ## requests a second through gpuyard serve, and what it adds to an answer
	@command -v wrk > /dev/null || apt-get install -qq -y wrk > /dev/null 2>&1 || \
		echo "bench-serve: wrk is not here and cannot be installed; measuring by our own generator alone" >&2
	@$(BIN)/python -m benchmarks.serving_http

bench-emulation: $(TOOLS) $(NATIVE)  ## the emulated GPU against published measurements; writes docs/fidelity.md
	@$(BIN)/python -m benchmarks.emulated

bench-real: $(TOOLS) $(COMPILED)  ## jobs with real processes beside the simulator, an hour or more; writes docs/fidelity.md
	@$(BIN)/python -m benchmarks.real

bench-profile: $(TOOLS)  ## three jobs profiled at few points, against all points measured; writes docs/profiling.md
	@$(BIN)/python -m benchmarks.job_profiles

format: $(TOOLS)  ## let ruff mend what it can
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

clean:  ## remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gpuyard needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) (once)…" >&2
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): $(INPUTS) | $(BIN)/python
	@$(PIP_INSTALL) -e .
	@touch $@

$(TOOLS): $(INPUTS) | $(BIN)/python
	@$(PIP_INSTALL) -e '.[kube,monitor,ray,run,serve,test,test-cuda,torch]'
	@touch $@ $(RUNTIME)

# Installing builds the libraries in C, and whoever needs one whose sources have changed builds it again. Doing it here, once
# and in one process, keeps that out of tests that run side by side, and removes those of older sources.
$(NATIVE): $(shell find native -type f) | $(RUNTIME)
	@$(BIN)/python native/build.py
	@touch $@

# Kernels are compiled on first use and cached, one cache for each state of the source. Doing it here, once and in one
# process, keeps it out of the demo, of tests that run side by side, and of every measurement.
$(COMPILED): $(SOURCES) | $(RUNTIME)
	@$(BIN)/python -m gpuyard.simulation.compiling
	@touch $@
