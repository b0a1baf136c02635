# Two commands: `make` runs the default studies to results/report.html, `make test` passes the tests. Inside they are plain
# `snakemake` and `pytest` in the project's own virtual environment; `make PYTHON=...` makes it with another interpreter.
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(or $(PYTHON),python3) envs/setup.py --venv $(VENV) $(if $(PYTHON),,--keep)
TEST_WORKERS := 2

.PHONY: all setup setup-test test test-slow lint clean

all: setup
	@$(BIN)/snakemake

# Any target of the workflow: make plan, make mlperf, make report, ... (`make help` lists them)
plan data mlperf measure figures report equivalence selftest help: setup
	@$(BIN)/snakemake $@
.PHONY: plan data mlperf measure figures report equivalence selftest help

setup:
	@$(SETUP)

setup-test:
	@$(SETUP) --tests

# What is measured must run alone, so the fast tests go in parallel and the measured ones one after another.
test: setup-test
	$(BIN)/pytest -n $(TEST_WORKERS) -m "not slow and not integration"
	$(BIN)/pytest -m "integration and not slow"

test-slow: setup-test
	$(BIN)/pytest -m slow

lint: setup-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf results .snakemake
