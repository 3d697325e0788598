# Every target sets up what it needs in .venv from this project's own files, pinned by
# requirements/constraints.txt. A stamp per set of extras makes re-running cost seconds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PINS := pyproject.toml requirements/constraints.txt
INSTALL = $(PIP) install -c requirements/constraints.txt -e

.PHONY: setup learn run test slow lint docs docs-figures bench experiments experiments-network experiments-clustering experiments-order experiments-learning lock clean

setup: $(VENV)/.run

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(PINS) | $(BIN)/python
	$(INSTALL) '.[live,plot,sql]'
	@touch $@

$(VENV)/.test: $(PINS) $(VENV)/.run
	$(INSTALL) '.[live,plot,sql,networkx,test]'
	@touch $@

# Learners need torch and scikit-learn, which are large: only who trains, and the full tests, install them.
learn: $(VENV)/.learn

$(VENV)/.learn: $(PINS) $(VENV)/.run
	$(INSTALL) '.[live,plot,sql,learn]'
	@touch $@

$(VENV)/.lint: $(PINS) $(VENV)/.test
	$(INSTALL) '.[live,plot,sql,networkx,test,lint]'
	@touch $@

$(VENV)/.docs: $(PINS) $(VENV)/.run
	$(INSTALL) '.[live,plot,sql,docs]'
	@touch $@

# The peers of the benchmarks pin old dependencies: they live in an environment of their own.
.venv-bench/.done: pyproject.toml requirements/bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check -qq install -c requirements/bench.txt -e '.[bench]'
	@touch $@

run: setup
	$(BIN)/incrowd run examples/commute.toml --seed 7
	$(BIN)/incrowd run examples/live.toml --engine live

# One thread per process: the tests already run on every core. One process more than cores, as tests
# of live surveys wait for their rounds.
test slow: export OPENBLAS_NUM_THREADS = 1
# Tests start many processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal

test: $(VENV)/.test
	$(PYTEST)

slow: $(VENV)/.test
	$(PYTEST) -m slow

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every number in the README and the docs is written by this, from the real commands and tables.
docs-figures: setup
	$(BIN)/python docs/generate.py

bench: $(VENV)/.test .venv-bench/.done
	$(BIN)/python benchmarks/shuffle.py
	$(BIN)/python benchmarks/walk.py
	$(BIN)/python benchmarks/check_in.py
	$(BIN)/python benchmarks/token_walk.py
	$(BIN)/python benchmarks/scrambled_query.py
	$(BIN)/python benchmarks/order_shuffle.py
	$(BIN)/python benchmarks/live.py
	.venv-bench/bin/python benchmarks/randomizers.py

experiments: setup
	$(BIN)/python -m experiments.shuffle
	$(BIN)/python -m experiments.network_shuffle
	$(BIN)/python -m experiments.check_in
	$(BIN)/python -m experiments.token_walk
	$(BIN)/python -m experiments.token_theory
	$(BIN)/python -m experiments.scrambled_query

# On real graphs (INCROWD_DATA names their directory): an hour on two idle cores, the first time.
experiments-network: setup
	$(BIN)/python -m experiments.network_real

# On MNIST, without torch (under INCROWD_DATA): minutes.
experiments-clustering: setup
	$(BIN)/python -m experiments.scrambled_clustering

# On census, Twitch and Californian data (under INCROWD_DATA): some twenty minutes.
experiments-order: $(VENV)/.learn
	$(BIN)/python -m experiments.order_shuffle

# On MNIST and house prices (under INCROWD_DATA): hours on two idle cores; interrupted, it goes on where it was.
experiments-learning: $(VENV)/.learn
	$(BIN)/python -m experiments.check_in_learning
	$(BIN)/python -m experiments.token_learning

# Renew the pins from what the newest versions resolve to.
lock: $(VENV)/.lint $(VENV)/.docs $(VENV)/.learn
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > requirements/constraints.txt

clean:
	rm -rf $(VENV) .venv-bench site out
