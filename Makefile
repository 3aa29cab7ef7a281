# Both `make demo` and `make test` set up all they need in .venv; a machine needs Python (3.9 or later) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long test-matrix test-horovod lint docs pictures site fuzz mutations benchmarks clean

demo: $(VENV)/ready
	$(BIN)/python benchmarks/demo.py

# Hundreds of tests start the tool; where Python may write no bytecode, each of them would compile all of it anew.
test: $(VENV)/ready lint
	$(BIN)/python -m compileall -q migrator rules lockstep
	$(BIN)/python -m pytest -n 2

# What `make test` leaves out for the sake of time.
test-long: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 -m long

# The runtime on other versions of TensorFlow, and the tool on the oldest Python, as far as these are found here.
# QUICK=1: the essentials only.
test-matrix: $(VENV)/ready
	$(BIN)/nox -t tensorflow tool -- $(if $(QUICK),quick)
	$(if $(QUICK),,$(BIN)/nox -s openmpi)

# The backend horovod, with a Horovod that is built first; needs a C++ compiler and about 10 minutes more, once.
test-horovod: $(VENV)/ready
	$(BIN)/nox -s horovod

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages that are printed from the code; a test fails when they are stale.
docs: $(VENV)/ready
	$(BIN)/python docs/generate.py

# The pictures of the pages; needs Chromium.
pictures: $(VENV)/ready
	$(BIN)/python docs/pictures/draw.py

# Mutated scripts for SECONDS, of the fixtures and of FOLDERS; those that something is wrong with are kept in build/fuzz.
SECONDS ?= 600
fuzz: $(VENV)/ready
	nice -n 15 $(BIN)/python tests/fuzz/run.py --seconds $(SECONDS) $(FOLDERS)

# How good `migrate verify` is: 20 mistakes made on purpose in migrated scripts. Hours; SCRIPT=name for one of them.
mutations: $(VENV)/ready
	$(BIN)/python -m tests.mutations.run $(if $(SCRIPT),--script $(SCRIPT))

# The site of the documentation, in build/site; a test builds it, too.
site: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Long: every number of benchmarks/RESULTS.md anew.
benchmarks: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .nox .mypy_cache .pytest_cache .ruff_cache
