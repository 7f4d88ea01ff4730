# netfold: `make run` and `make test` need only python3 (3.11 or newer, with venv and headers), g++ and make.
# Everything is installed into .venv with the versions of constraints.txt; a second call finds it done.

PYTHON ?= python3
BIN := .venv/bin
NATIVE := $(wildcard CMakeLists.txt */native/CMakeLists.txt */native/*.cpp */native/*.cc */native/*.h */native/*.hpp \
	*/native/*/*.cpp */native/*/*.cc */native/*/*.h)

.PHONY: run test test-all check bench build clean

run: .venv/.installed  ## the main job on the default graph: tables, plots and records in results/
	$(BIN)/netfold run --memory 10MB,30MB,100MB

test: .venv/.installed  ## the tests that finish in a few minutes
	@sh .ci/browser.sh
	$(BIN)/python -m pytest -q -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

test-all: .venv/.installed  ## every test, the slow ones too
	@sh .ci/browser.sh
	$(BIN)/python -m pytest -q

check: .venv/.installed  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/mypy

# The full-size graph and plan take minutes more: make bench BENCH="sim p4 graphs plan train accuracy torchgt"
BENCH ?= sim p4 p4_sim emulator
bench: .venv/.installed  ## the simulation beside stock ns-3 forwarding, the P4 engine alone and in the simulation, the emulator
	$(BIN)/python -m tests.benchmarks $(BENCH)

build: .venv/.tools  ## developers: the extension modules beside the sources, from build/dev
	$(BIN)/cmake -S . -B build/dev -G Ninja -DNETFOLD_INPLACE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	$(BIN)/ninja -C build/dev

clean:  ## remove what the build made; results/ stays
	rm -rf .venv build

.venv/.tools: constraints.txt
	@sh .ci/preflight.sh $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		scikit-build-core nanobind cmake ninja ns3
	@touch $@

.venv/.installed: .venv/.tools pyproject.toml $(NATIVE)
	@echo "netfold: installing into .venv (a few minutes the first time)"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation -e '.[train,test,dev]' -c constraints.txt
	@touch $@
