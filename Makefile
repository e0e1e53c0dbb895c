# Every target sets up what it needs: a virtual environment in .venv and this package in it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/python

.PHONY: demo test lint types bench docs clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@test -e $(VENV)/.dev || $(RUN) -m pip install --quiet --disable-pip-version-check -e ".[plot]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.dev
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

demo: $(VENV)/.demo  ## the main job, pictures in out/
	$(RUN) examples/demo.py

test: $(VENV)/.dev  ## the whole test suite, doctests included
	$(RUN) -m pytest -q

lint: $(VENV)/.dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

types: lint

bench: $(VENV)/.bench  ## speed and accuracy beside other packages
	$(RUN) -m benchmarks

docs: $(VENV)/.dev  ## docs/ rendered to docs/_site
	$(RUN) docs/build.py

clean:
	rm -rf $(VENV) out docs/_site .pytest_cache .hypothesis .mypy_cache .ruff_cache
