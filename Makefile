# Every target sets up what it needs in .venv from this project's own files, pinned by
# requirements/constraints.txt. A stamp per set of extras makes re-running cost seconds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
PINS := pyproject.toml requirements/constraints.txt $(VENV)/.pip
INSTALL = $(PIP) install -c requirements/constraints.txt -e
RUN_EXTRAS := live,plot,sql

.DEFAULT_GOAL := help
.PHONY: help setup learn run test slow lint docs docs-figures bench experiments experiments-network experiments-clustering experiments-order experiments-learning build lock hashes clean

help: ## Print what each target does.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort -t: -k1,1 | awk -F ':.*## ' '{ printf "%-24s%s\n", $$1, $$2 }'

setup: $(VENV)/.run ## Make .venv with what it takes to run surveys.

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The pip that comes with Python 3.11 knows no dependency groups.
$(VENV)/.pip: | $(BIN)/python
	$(PIP) install 'pip>=25.1'
	@touch $@

$(VENV)/.run: $(PINS)
	$(INSTALL) '.[$(RUN_EXTRAS)]'
	@touch $@

$(VENV)/.test: $(PINS) $(VENV)/.run
	$(INSTALL) '.[$(RUN_EXTRAS),data]' --group test
	@touch $@

# Torch and scikit-learn are large: only who trains, and the full tests, install them.
learn: $(VENV)/.learn ## Add torch, for learning, and what experiments need.

$(VENV)/.learn: $(PINS) $(VENV)/.run
	$(INSTALL) '.[$(RUN_EXTRAS),learn]' --group experiments
	@touch $@

$(VENV)/.lint: $(PINS) $(VENV)/.test
	$(INSTALL) '.[$(RUN_EXTRAS),data]' --group test --group lint
	@touch $@

$(VENV)/.docs: $(PINS) $(VENV)/.run
	$(INSTALL) '.[$(RUN_EXTRAS)]' --group docs
	@touch $@

# The peers of the benchmarks pin old dependencies: they live in an environment of their own.
.venv-bench/.done: pyproject.toml requirements/bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check -qq install 'pip>=25.1'
	.venv-bench/bin/python -m pip --disable-pip-version-check -qq install -c requirements/bench.txt -e . --group bench
	@touch $@

run: setup ## Ask two example surveys, one of them live.
	$(BIN)/incrowd run examples/commute.toml --seed 7
	$(BIN)/incrowd run examples/live.toml --engine live

# One thread per process: the tests already run on every core. One process more than cores, as tests
# of live surveys wait for their rounds.
test slow: export OPENBLAS_NUM_THREADS = 1
# Tests start many processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal

test: $(VENV)/.test ## Run the tests.
	$(PYTEST)

slow: $(VENV)/.test ## Run the long checks.
	$(PYTEST) -m slow

lint: $(VENV)/.lint ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## Build the pages into site/; the tests check that they are fresh.
	$(BIN)/sphinx-build -W --keep-going -q -j auto -b html -d out/doctrees docs site

# Every number in the README and the docs is written by this, from the real commands and tables.
# Errata are computed by the oracles of the tests.
docs-figures: $(VENV)/.test ## Write every generated piece of the README and the docs.
	$(BIN)/python docs/generate.py

bench: $(VENV)/.test $(VENV)/.learn .venv-bench/.done ## Measure speed beside peers, and sizes of dependencies.
	$(BIN)/python -m benchmarks.dependencies
	$(BIN)/python benchmarks/shuffle.py
	$(BIN)/python benchmarks/walk.py
	$(BIN)/python benchmarks/check_in.py
	$(BIN)/python benchmarks/token_walk.py
	$(BIN)/python benchmarks/scrambled_query.py
	$(BIN)/python benchmarks/order_shuffle.py
	$(BIN)/python benchmarks/live.py
	.venv-bench/bin/python benchmarks/randomizers.py

experiments: setup ## Experiments that need no data.
	$(BIN)/python -m experiments.shuffle
	$(BIN)/python -m experiments.network_shuffle
	$(BIN)/python -m experiments.check_in
	$(BIN)/python -m experiments.token_walk
	$(BIN)/python -m experiments.token_theory
	$(BIN)/python -m experiments.scrambled_query

# On real graphs (INCROWD_DATA names their directory): an hour on two idle cores, the first time.
experiments-network: setup ## Experiments on real graphs.
	$(BIN)/python -m experiments.network_real

# On MNIST, without torch (under INCROWD_DATA): minutes.
experiments-clustering: setup ## Experiments on clustering digits.
	$(BIN)/python -m experiments.scrambled_clustering

# On census, Twitch and Californian data (under INCROWD_DATA): some twenty minutes.
experiments-order: $(VENV)/.learn ## Experiments on released tables.
	$(BIN)/python -m experiments.order_shuffle

# On MNIST and house prices (under INCROWD_DATA): hours on two idle cores; interrupted, it goes on where it was.
experiments-learning: $(VENV)/.learn ## Experiments on learning.
	$(BIN)/python -m experiments.check_in_learning
	$(BIN)/python -m experiments.token_learning

build: $(VENV)/.test ## Build the wheel and the source distribution into dist/.
	$(BIN)/python -m build

lock: $(VENV)/.lint $(VENV)/.docs $(VENV)/.learn ## Pin the newest versions that work together, with hashes.
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > requirements/constraints.txt
	$(MAKE) hashes

.venv-lock/bin/uv: pyproject.toml
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip --disable-pip-version-check -qq install 'pip>=25.1'
	.venv-lock/bin/python -m pip --disable-pip-version-check -qq install --group lock
	@touch $@

# For every platform and Python at once. Torch, and with it the extra learn, stays out: builds of it
# for one kind of processor or card have hashes of their own.
COMPILE = .venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-annotate \
	--custom-compile-command 'make hashes' -c requirements/constraints.txt pyproject.toml

hashes: .venv-lock/bin/uv ## Write the hashes of all pinned versions.
	$(COMPILE) --extra live -o requirements/live.txt
	$(COMPILE) --extra live --extra data --extra sql --extra plot \
		--group test --group lint --group experiments -o requirements/lock.txt

clean: ## Remove everything that targets have made.
	rm -rf $(VENV) .venv-bench .venv-lock build dist site out docs/gallery
