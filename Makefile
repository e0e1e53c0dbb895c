# Every target sets up what it needs: a virtual environment in .venv and this package in it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/python

.PHONY: demo test lint types bench docs ledger-race dominance ledger-bench clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

# A Chromium for tests/unit/test_browser.py: the system's, Playwright's own, or the distribution's package.
$(VENV)/.browser: | $(VENV)/.dev
	@command -v chromium >/dev/null || command -v chromium-headless-shell >/dev/null || command -v google-chrome >/dev/null \
	  || $(BIN)/playwright install --only-shell chromium >/dev/null 2>&1 \
	  || { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core >/dev/null; } \
	  || echo "no Chromium could be installed: tests/unit/test_browser.py says so and skips"
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@test -e $(VENV)/.dev || $(RUN) -m pip install --quiet --disable-pip-version-check -e ".[plot]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.dev
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

demo: $(VENV)/.demo  ## the main job, pictures in out/
	$(RUN) examples/demo.py

test: $(VENV)/.dev $(VENV)/.browser  ## the whole test suite, doctests included
	$(RUN) -m pytest -q

lint: $(VENV)/.dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

types: lint

bench: $(VENV)/.bench  ## speed and accuracy beside other packages
	$(RUN) -m benchmarks

ledger-race: $(VENV)/.dev  ## 200 rounds of 64 processes that race for one ledger and are killed
	nice -n 10 $(RUN) -m benchmarks.ledger_race --rounds 200

ledger-bench: $(VENV)/.dev  ## a ledger of 100,000 entries: append, what is left, verify
	nice -n 10 $(RUN) -m benchmarks.ledger --entries 100000

dominance: $(VENV)/.dev  ## dominates on 10,000 pairs against dense grids
	nice -n 10 $(RUN) -m benchmarks.dominance --pairs 10000

docs: $(VENV)/.dev  ## docs/ rendered to docs/_site
	$(RUN) docs/build.py

clean:
	rm -rf $(VENV) out docs/_site .pytest_cache .hypothesis .mypy_cache .ruff_cache
