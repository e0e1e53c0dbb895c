# Every target sets up what it needs: a virtual environment in .venv and this package in it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/python

.PHONY: demo test lint spelling types api walks bench sweep docs theory wheel ledger-race dominance ledger-bench release-check clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

# A Chromium for tests/unit/auditing/test_browser.py: the system's, Playwright's own, or the distribution's package.
$(VENV)/.browser: | $(VENV)/.dev
	@command -v chromium >/dev/null || command -v chromium-headless-shell >/dev/null || command -v google-chrome >/dev/null \
	  || $(BIN)/playwright install --only-shell chromium >/dev/null 2>&1 \
	  || { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core >/dev/null; } \
	  || echo "no Chromium could be installed: tests/unit/auditing/test_browser.py says so and skips"
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@test -e $(VENV)/.dev || $(RUN) -m pip install --quiet --disable-pip-version-check -e ".[plot]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.dev
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.dev
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

demo: $(VENV)/.demo  ## the main job, pictures in out/
	$(RUN) examples/demo.py

# Many tests start a process: each would read the whole package anew if Python were forbidden to keep compiled modules.
test: $(VENV)/.dev $(VENV)/.browser  ## the test suite on all cores, doctests included; `make sweep` has more cases
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -q -n auto --dist worksteal

lint: $(VENV)/.dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy --strict

spelling: $(VENV)/.dev  ## pages, docstrings and comments
	$(BIN)/codespell

types: lint

walks: $(VENV)/.dev  ## how many files everyday calls touch, and the limits
	$(RUN) .ci/walks.py

api: $(VENV)/.dev  ## the public names and signatures, after a change that is meant
	PYTHONPATH=tests $(RUN) -m helpers.public_api

bench: $(VENV)/.bench  ## speed and accuracy beside other packages
	$(RUN) -m benchmarks

sweep: $(VENV)/.dev  ## many random cases: floats, error estimates and certificates agree (part of the release check)
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m pytest -q -n auto --dist worksteal -m sweep tests
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.golden compare --only cases
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.sampled_sweep --first 0 --count 2000 --jobs $$(nproc)
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.sampled_sweep --first 0 --count 2000 --jobs $$(nproc) --kind curved
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.sampled_sweep --first 0 --count 500 --jobs $$(nproc) --kind batches
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.sampled_sweep --first 0 --count 500 --jobs $$(nproc) --kind epochs
	OMP_NUM_THREADS=1 nice -n 10 $(RUN) -m benchmarks.border_attack --cases 20000 --releases 2000

ledger-race: $(VENV)/.dev  ## 200 rounds of 64 processes that race for one ledger and are killed
	nice -n 10 $(RUN) -m benchmarks.ledger_race --rounds 200

ledger-bench: $(VENV)/.dev  ## a ledger of 100,000 entries: append, what is left, verify
	nice -n 10 $(RUN) -m benchmarks.ledger --entries 100000

dominance: $(VENV)/.dev  ## dominates on 10,000 pairs against dense grids
	nice -n 10 $(RUN) -m benchmarks.dominance --pairs 10000

docs: $(VENV)/.docs  ## the site, in docs/_site; a warning or a dead link is an error
	rm -rf docs/reference/generated  # pages of names that are gone would be warnings
	$(RUN) -m sphinx -q -W --keep-going -b html docs docs/_site
	$(RUN) .ci/check_site.py docs/_site

theory: docs $(VENV)/.browser  ## the theory as a paper, in out/theory.pdf
	$(RUN) .ci/theory_pdf.py

wheel: $(VENV)/.dev  ## the wheel and the source archive, checked in clean environments
	rm -rf dist
	$(RUN) -m build
	$(RUN) .ci/check_wheel.py dist/*.whl

release-check: lint spelling walks test docs theory wheel demo bench sweep ledger-race ledger-bench dominance  ## all that the checklist of a release names

clean:
	rm -rf $(VENV) out dist docs/_site docs/reference/generated docs/jupyter_execute .pytest_cache .hypothesis .mypy_cache .ruff_cache
