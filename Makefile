# `make demo` and `make test` need Python 3.11+ and nothing else: they build .venv when no virtual environment is active.
PYTHON ?= python3
VENV := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.umu-bench-installed
export TOKENIZERS_PARALLELISM ?= false
# Tests run side by side; each worker takes a core and up to 3 GB.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint types check docs install clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

demo: $(INSTALLED)  ## The main job on the embedded UMU-mini, on CPU: SFT, unlearning, lmms-eval scoring, report
	@$(BIN)/umu demo

test: $(INSTALLED)  ## Run the tests (those marked slow left out)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(INSTALLED)  ## Run the tests marked slow
	@$(BIN)/python -m pytest -m slow -n $(WORKERS) --dist loadfile

lint: $(INSTALLED)  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(INSTALLED)  ## mypy
	@$(BIN)/mypy

check: lint types test  ## lint, types, tests

docs: $(INSTALLED)  ## Build the documentation's site in site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

install: $(INSTALLED)  ## Install into .venv, or into the active virtual environment

clean:  ## Remove .venv, the site and the demo's results
	rm -rf .venv runs site

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "umu-bench needs Python 3.11 or newer; found $$($(PYTHON) --version 2>/dev/null || echo no $(PYTHON)). Name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@[ -x $(BIN)/python ] || { echo "Making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --upgrade >/dev/null || \
	  { echo "There is no pip in $(VENV), and Python can't put one there. On Debian and Ubuntu install python3-venv first"; exit 1; }
	@echo "Installing umu-bench and its dependencies into $(VENV) (some minutes and about 7 GB, once: PyTorch is large)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
