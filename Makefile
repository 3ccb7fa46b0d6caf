# Every target makes its own virtual environment when it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
OLDEST ?= tests/test_gp.py tests/test_units.py tests/test_regressors.py tests/test_cli.py
TOOLS := hypothesis pandas polars pytest pytest-xdist
RELEASE ?= tests/test_readme.py "tests/test_regressors.py::test_scikit_learn_contract[GPUM]"

.PHONY: test test-release test-all test-oldest test-newest mutations lint format audit dist results bench demo docs clean

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What a release needs beside the fast tests: scikit-learn's contract with a chart, and README's accuracy at its full size.
test-release: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "" $(RELEASE)

test-all: .venv/.oracles
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "" --hypothesis-profile=many

# Some of the fast tests with the oldest dependencies that pyproject.toml admits, in an environment of their own. What
# these depend on themselves is new, so deprecation warnings between the two are ignored.
test-oldest: .venv-oldest/.installed
	GPUM_CACHE=.venv-oldest/programs .venv-oldest/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider \
		-W ignore::DeprecationWarning $(OLDEST)

# The same tests with the newest versions, whatever constraints.txt pins; PYTHON=python3.14 with another Python.
test-newest:
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[app]' $(TOOLS)
	GPUM_CACHE=.venv-newest/programs .venv-newest/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider \
		-W ignore::DeprecationWarning $(OLDEST)

# Breaks central lines one at a time; about half an hour. It fails where the fast tests do not notice one.
mutations: .venv/.installed
	$(BIN)/python tests/mutations.py

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Known weaknesses of the pinned packages; it asks a public database, and fails where that does not answer.
audit: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# Wheel and sdist in dist/, checked: the wheel is installed alone in a new environment and used there.
dist: .venv/.installed
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build
	$(BIN)/python tests/installed.py dist

# Measures what the pages quote (hours on two cores; PART=tasks,demo measures some, FORCE=1 repeats) and writes it into them.
results: .venv/.oracles
	$(BIN)/python benchmarks/results.py --pages $(or $(PART),all)

bench: .venv/.oracles
	$(BIN)/python benchmarks/latent_model.py
	$(BIN)/python benchmarks/heat_kernel.py
	$(BIN)/python benchmarks/regression.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/quick.py
	$(BIN)/python benchmarks/labels.py --most 2001

demo: .venv/.installed
	$(BIN)/gpum demo

# It runs the tutorial; GPUM_GALLERY=1 make docs runs all examples (minutes; they need the data sets).
docs: .venv/.docs
	$(BIN)/python -m sphinx -W --keep-going -d docs/_build/doctrees docs docs/_build/html

clean:
	rm -rf .venv .venv-oldest .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache docs/_build docs/api docs/gallery

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("GPUM needs Python 3.11 or newer; set PYTHON=/path/to/it" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,app]'
	touch $@

.venv/.oracles: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,app,oracles,notebook]'
	touch $@

.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,app,docs]'
	touch $@

.venv-oldest/.installed: pyproject.toml tests/oldest.py
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python tests/oldest.py > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-oldest/oldest.txt -e '.[app]' $(TOOLS)
	touch $@
