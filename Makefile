# `make demo` and `make test` need python3 (3.11 or newer) and make, nothing else.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
LOGS := build/gate

BIN := $(VENV)/bin
# The many processes of one run share what the first has compiled.
export PYTHONDONTWRITEBYTECODE :=
DEPS := pyproject.toml papers/pyproject.toml studio/pyproject.toml $(wildcard requirements/*.txt)
# A stamp says which extras stand in $(VENV); installs repeat only when $(DEPS) change.
PLOT := $(VENV)/.installed-plot
DEV := $(VENV)/.installed-dev
# Dependency groups need pip 25.1. What is never imported is never compiled: that halves the time.
PIP := pip==26.3
INSTALL_OPTIONS := --quiet --no-compile --disable-pip-version-check
INSTALL := $(BIN)/python -m pip install $(INSTALL_OPTIONS)
# `make soak` runs the tests with the oldest versions allowed, and with the newest Python that is here.
LOWEST_VENV ?= .venv-lowest
NEWEST_VENV ?= .venv-newest
NEWEST ?= $(shell for minor in 14 13 12; do python3.$$minor -c '' 2>/dev/null && echo python3.$$minor && break; done)
# What these two need of the extras, and the tests that need more than that.
SPARE_EXTRAS := arrow,fast,opendp,plot,postgres,service
SPARE_TESTS := --ignore=tests/spark --ignore=tests/studio --ignore=tests/papers --ignore=tests/golden \
  --ignore=tests/test_benchmarks.py --ignore=tests/test_docs.py
# Tests that wait for other programs (a cluster, a browser, a server) more than they compute.
WAITING := tests/spark/test_cluster.py tests/studio/test_browser.py tests/studio/test_charts_in_browser.py \
  tests/studio/test_serving.py tests/cli/test_serve.py tests/cli/test_sanitize_kills.py tests/ledger/test_crashes.py \
  tests/test_packaging.py

.DELETE_ON_ERROR:
.PHONY: demo test beside suite warm waiting check format lint types imports docs pages coverage bench lock soak soak-lowest soak-newest mutants wheel sbom verifier clean

demo: $(PLOT)  ## install what the demonstration needs and run it
	$(BIN)/undertow demo

# What takes seconds comes first. Types, documentation and the tests that wait are checked beside the
# others; what they say is kept in $(LOGS) and shown where they fail. The summary of the tests that
# compute is the last thing a good run prints.
test: $(DEV)  ## the gate: everything that must hold, pytest's summary last
	$(MAKE) --no-print-directory -j $(WORKERS) lint imports
	@rm -rf $(LOGS) && mkdir -p $(LOGS)
	@$(MAKE) --no-print-directory --keep-going -j 2 beside suite || \
	  { for log in $(LOGS)/*.failed; do test ! -f $$log || { echo "--- $$log" && cat $$log; }; done; exit 1; }

beside: $(DEV)
	@for check in types pages waiting; do \
	  $(MAKE) --no-print-directory $$check > $(LOGS)/$$check.log 2>&1 || { failed=yes; \
	    mv $(LOGS)/$$check.log $(LOGS)/$$check.failed; \
	    echo "$$check failed; what it says is shown after the tests" >&2; }; \
	done; test -z "$$failed"

# Ledgers wait for the disk at every commit, as they do for users: where there is a file system in
# memory, temporary files of the tests lie there.
SCRATCH := $(shell test -d /dev/shm && test -w /dev/shm && echo TMPDIR=/dev/shm)

# Rewriting every assertion takes each worker of a fresh clone as long as a twentieth of the gate: what
# fails runs once more, with the values behind its assertion. The gate has failed all the same.
suite: warm
	$(SCRATCH) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --assert=plain $(WAITING:%=--ignore=%) || \
	  { $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none; exit 1; }

warm: $(DEV)
	@$(BIN)/python -W ignore -m tests.warm

waiting: $(DEV)
	$(BIN)/python -m pytest -p no:cacheprovider $(WAITING)

check: lint types imports  ## the inner loop: the same without the documentation
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

format: $(DEV)  ## rewrite the sources in the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lint: $(DEV)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/codespell docs README.md CHANGELOG.md CONTRIBUTING.md ARCHITECTURE.md src papers/src studio/src notebooks examples

types: $(DEV)
	$(BIN)/python scripts/no-gc mypy

imports: $(DEV)
	$(BIN)/lint-imports --no-logo

SPHINX := $(BIN)/python scripts/no-gc sphinx --quiet --fail-on-warning --keep-going --nitpicky
docs: $(DEV)  ## build docs/_build/html; a warning is an error
	$(SPHINX) docs docs/_build/html

# The same pages and references in a plain theme: the site's own draws a tree of all pages on each.
pages: $(DEV)
	$(SPHINX) -D html_theme=basic docs build/pages

coverage: $(DEV)  ## run the tests once, in one process, and show what no test reached
	$(BIN)/python -m pytest --cov --cov-report=term-missing

bench: $(DEV)  ## one table of the main calls beside peers and plain versions: docs/benchmarks.md
	$(BIN)/python -m benchmarks

lock: $(DEV)  ## write requirements/ anew: the versions that are installed, with hashes
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/lock

soak: $(DEV) soak-lowest soak-newest  ## the runs that take minutes or hours; pytest's 5 means that none is written yet
	$(BIN)/python -m pytest -m soak || test $$? -eq 5

soak-lowest:  ## the tests with the oldest versions of everything that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip install $(INSTALL_OPTIONS) '$(PIP)'
	$(LOWEST_VENV)/bin/python -m pip install $(INSTALL_OPTIONS) -r requirements/lowest.txt
	$(LOWEST_VENV)/bin/python -m pip install $(INSTALL_OPTIONS) --no-deps --editable .
	$(LOWEST_VENV)/bin/python -m pytest -W ignore::DeprecationWarning -n $(WORKERS) --dist worksteal -p no:cacheprovider $(SPARE_TESTS) tests

soak-newest:  ## the tests with the newest Python here, and the newest versions of everything
	@test -n "$(NEWEST)" || { echo "no Python newer than 3.11 is here; name one: make NEWEST=/path/to/python3.14 soak" >&2; exit 1; }
	$(NEWEST) -m venv --clear $(NEWEST_VENV)
	$(NEWEST_VENV)/bin/python -m pip install $(INSTALL_OPTIONS) '$(PIP)'
	$(NEWEST_VENV)/bin/python -m pip install $(INSTALL_OPTIONS) --group test --editable '.[$(SPARE_EXTRAS)]'
	$(NEWEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -p no:cacheprovider $(SPARE_TESTS) tests

mutants: $(DEV)  ## one small defect at a time in a copy of the sources: which does no test notice?
	$(BIN)/python soak/mutants.py --control --wide

# The time of the last commit, so that the same sources give the same bytes.
wheel: $(DEV)  ## build dist/: the wheel and the source archive
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m build --no-isolation

sbom: $(DEV)  ## print what undertow needs, as installed in $(VENV) (CycloneDX)
	@$(BIN)/python scripts/sbom

verifier:  ## compile build/undertow_verify, which checks certificates without undertow
	@mkdir -p build
	$(CC) -O2 -std=c99 -o build/undertow_verify verifier/undertow_verify.c

clean:  ## remove what was built, and the environment
	rm -rf $(VENV) build dist docs/_build docs/_generated docs/notebooks docs/reference demo-output .coverage htmlcov
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "undertow needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '$(PIP)'

$(PLOT): $(DEPS) | $(BIN)/python
	$(INSTALL) --require-hashes --requirement requirements/plot.txt
	$(INSTALL) --editable '.[plot]'
	@touch $@

# First the exact versions, held against their hashes; then pip sees to what this machine needs
# besides, and takes the build of torch that fits it.
$(DEV): $(DEPS) | $(BIN)/python
	$(INSTALL) --require-hashes --no-deps --requirement requirements/dev.txt
	$(INSTALL) --no-build-isolation --constraint requirements/torch.txt --group dev \
	  --editable '.[all]' --editable './papers[neural]' --editable ./studio
	@touch $(PLOT) $@
