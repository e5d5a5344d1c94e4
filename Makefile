# SPDX-License-Identifier: GPL-2.0-or-later
# Thin recipes; CONTRIBUTING.md says when to use which.
ARCH ?= arm64
OUT ?= demo

PYTHON := .venv/bin/python
C_FILES := $(shell git ls-files 'guest/*.[ch]' 'plugin/*.[ch]' 2>/dev/null)
FLOOR_FILES := $(shell git ls-files 'guest/floor/*.S' 'guest/floor/*.lds' 2>/dev/null)

.NOTPARALLEL:

# A .venv names the folder that it was made in: it is made anew in a checkout that was copied.
MADE_IN := $(shell cat .venv/installed 2>/dev/null)

setup: $(if $(filter-out $(CURDIR),$(MADE_IN)),forget) .venv/installed

forget:
	@echo "This checkout was in $(MADE_IN) when .venv was made: it is made anew."
	rm -rf .venv

.venv/installed: requirements.lock pyproject.toml hatch_build.py packages/run.txt $(C_FILES) $(FLOOR_FILES)
	@echo "1 of 3: Debian's packages (packages/run.txt)"
	scripts/install-packages packages/run.txt
	@echo "2 of 3: Python's packages (requirements.lock, 160 MB in .venv)"
	test -x $(PYTHON) || python3 -m venv .venv
	scripts/install-python requirements.lock
	@echo "3 of 3: kentry, its probe and plugins in C"
	$(PYTHON) -m pip -q install --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" >$@

demo: setup
	scripts/demo .venv/bin/kentry $(ARCH) $(OUT)

test-setup: setup .venv/developed
	scripts/install-packages packages/test.txt

# What tests, checks and every extra need: 1.1 GB more.
.venv/developed: requirements-dev.lock
	scripts/install-python requirements-dev.lock
	@touch $@

# uv, of PyPI, finds the versions; those that still fit stay.
LOCK = uv pip compile -q --universal --generate-hashes --no-annotate --no-header -p 3.11
locks:
	$(LOCK) pyproject.toml --extra dev -o requirements-dev.lock
	$(LOCK) pyproject.toml -c requirements-dev.lock -o requirements.lock
	echo '# What builds kentry:' >>requirements.lock
	echo 'hatchling>=1.27' | $(LOCK) - -c requirements-dev.lock >>requirements.lock

# Bytecode is kept even where the environment forbids it: else each process compiles all of kentry.
test test-quick: export PYTHONDONTWRITEBYTECODE =

# A file of tests is one process's, since its tests share what they build.
test: test-setup
	$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 25 $(PYTEST)

# Unit and golden tests, a minute: what boots, builds or waits is left to "make test".
test-quick: test-setup
	$(PYTHON) -m pytest -q -n 2 -m "not qemu and not slow" tests/unit tests/golden $(PYTEST)

check: test-setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	clang-format --dry-run --Werror $(C_FILES) bench/fuzz/*.[ch] tests/qemu/hostile/*.[ch]

bench: test-setup
	$(PYTHON) -m bench.run

# An hour: what kentry bisect finds in ten histories of 45 commits, each of real kernels.
bench-bisect: test-setup
	$(PYTHON) -m bench.bisecting

# Four minutes: what many workers make of many units, and what twenty kills cost.
bench-fleet: test-setup
	$(PYTHON) -m bench.fleet

# Hours: kentry and its programs are killed 312 times, 2,000 files are damaged; disks, terminals,
# guests and clocks fail.  FAULTS, its options: --kills 20 --builds 0.
faults: test-setup
	$(PYTHON) -m bench.faults $(FAULTS)

# Ten minutes: more than ten million inputs that nobody meant.  FUZZ, its options: --seconds 600.
fuzz: test-setup
	$(PYTHON) -m bench.fuzz $(FUZZ)

# Two hours: mixed commands, four at a time, on one cache; what grows.  SOAK: --seconds 600.
soak: test-setup
	$(PYTHON) -m bench.soak $(SOAK)

# How many lines of src/ the quick tests run.
coverage: PYTEST = --cov=kentry --cov-report=term
coverage: test-quick

# Hours the first time, and it goes on where it was stopped: every kernel of Debian's archive, and
# their history as a site.  HISTORY, its options: --arch arm64 --flavour arm64 --no-sources.
FOLDER ?= build/history
history: test-setup
	$(PYTHON) scripts/history.py $(FOLDER) $(HISTORY)

# An hour, and it goes on where it was stopped: how many mutants of the code the unit tests kill.
mutants: test-setup
	nice $(PYTHON) -m bench.mutants $(MUTANTS)

# Half an hour on a quiet machine: how often kentry is wrong, and what it finds.
honesty: test-setup
	$(PYTHON) bench/honesty/run.py

# Two hours: what an exact count depends on beside the kernel, on eight kernels.
contexts: setup
	$(PYTHON) -m bench.contexts

# The pages show what other programs print of exports.
docs: test-setup
	$(PYTHON) scripts/docs.py
	$(MAKE) site

# docs/ as a site that opens from its folder, with the report pages that "make docs" left.
site: test-setup site-pages
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build -q --strict
	@echo build/site/index.html

# mkdocs reads one folder, and links stay as they are in the tree.
site-pages:
	mkdir -p build/pages
	ln -sfn $(addprefix ../../,README.md CHANGELOG.md CONTRIBUTING.md docs examples) build/pages/

# man finds them where .venv/bin is on the PATH.
man: setup
	$(PYTHON) scripts/man.py .venv/share/man/man1

clean:
	rm -rf .venv src/kentry/native build demo dist

.PHONY: setup forget demo test-setup locks test test-quick check bench bench-bisect bench-fleet faults fuzz soak coverage history mutants honesty contexts docs site site-pages man clean
