# EnvOS: every target sets up what it needs; `make help` lists them.
# A fresh machine needs make and Python 3.11 or newer, nothing else:  make test PYTHON=python3.12

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
NEXT := 1.4.0
NEXT_DIR := .gymnasium-$(NEXT)
NEXT_TESTS := $(wildcard tests/gymnasium tests/envs)

# With more than one thread, small arrays cost more in hand-over than in work.
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The stamp's name holds what the environment depends on: another Python, another list of packages or a
# moved checkout asks for a new one; other dates, or another setting of a tool in pyproject.toml, do not.
KEY := $(shell { pwd; $(PYTHON) -V; cat setup.cfg constraints.txt; sed '/^$$/,$$d' pyproject.toml; } 2>&1 \
  | cksum | cut -d' ' -f1)
STAMP := .venv/made-$(KEY)

.PHONY: help venv demo test lint types imports unit unit-next browser bench clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

venv: $(STAMP)  ## .venv with the package (editable) and its tools; re-used while it is current

demo: $(STAMP)  ## certify, roll out the scripted policies, verify, print the tables
	@$(BIN)/envos demo

test: lint types imports unit unit-next browser  ## every check: ruff, mypy, import-linter, pytest on both Gymnasiums

lint: $(STAMP)  ## ruff, check and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	@$(BIN)/python tools/typetree.py
	$(BIN)/mypy

imports: $(STAMP)  ## who may import whom
	@$(BIN)/python tools/typetree.py
	PYTHONPATH=.typetree $(BIN)/lint-imports --no-logo

unit: $(STAMP)  ## pytest on the pinned Gymnasium
	ENVOS_EXPECT_GYMNASIUM=$$(sed -n 's/^gymnasium==//p' constraints.txt) $(BIN)/pytest -q -n $(WORKERS) --ignore=tests/browser

browser: $(STAMP)  ## pytest of the Chromium driver; gets a browser if there is none, and is skipped without
	@$(BIN)/python tools/browser.py
	$(BIN)/pytest -q -n $(WORKERS) tests/browser

unit-next: $(STAMP) $(NEXT_DIR)  ## pytest of the environments on the newest Gymnasium
	$(if $(NEXT_TESTS),ENVOS_EXPECT_GYMNASIUM=$(NEXT) PYTHONPATH=$(CURDIR)/$(NEXT_DIR) \
	  $(BIN)/pytest -q -n $(WORKERS) $(NEXT_TESTS),@echo "no tests of environments yet")

bench: $(STAMP)  ## measure; writes benchmarks/results/*.json
	@$(BIN)/python benchmarks/run.py

clean:  ## remove everything that make and the tools made
	rm -rf .venv .gymnasium-* .typetree build dist *.egg-info .hypothesis .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "EnvOS needs Python 3.11 or newer; $(PYTHON) is: $$($(PYTHON) -V 2>&1 | tail -1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "making .venv (about a minute)"
# An active .venv must not clear itself from under its own feet: hence the interpreter that it was made from.
	@"$$($(PYTHON) -c 'import sys; print(sys._base_executable)')" -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --editable '.[dev]' --constraint constraints.txt
	@touch $@

$(NEXT_DIR): | $(STAMP)
	@rm -rf $@.part
	@$(BIN)/python -m pip install -qq --no-deps --target $@.part gymnasium==$(NEXT)
	@mv $@.part $@
