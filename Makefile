# Every target makes its own virtual environment when it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test test-all mutations lint format audit bench demo docs clean

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: .venv/.oracles
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "" --hypothesis-profile=many

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

bench: .venv/.oracles
	$(BIN)/python benchmarks/latent_model.py
	$(BIN)/python benchmarks/heat_kernel.py
	$(BIN)/python benchmarks/regression.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/quick.py

demo: .venv/.installed
	$(BIN)/gpum demo

# GPUM_GALLERY=1 make docs also runs the examples (minutes; they need the data sets).
docs: .venv/.docs
	$(BIN)/python -m sphinx -W --keep-going -d docs/_build/doctrees docs docs/_build/html

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache docs/_build docs/api docs/gallery

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("GPUM needs Python 3.11 or newer; set PYTHON=/path/to/it" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,parquet,report]'
	touch $@

.venv/.oracles: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,parquet,report,oracles]'
	touch $@

.venv/.docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,dask,parquet,report,docs]'
	touch $@
