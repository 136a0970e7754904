# MultiTree. Every target sets itself up: python3 (3.11 or newer), g++, make and perl are enough.
# Python packages go into .venv in this folder; nothing else on the machine is touched.

PYTHON ?= python3
SPEC   ?= torus:4x4
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
# Libraries that train hold back releases of others: they have an environment of their own.
CLIENTS := $(VENV)/clients
# Measurements that have a target of their own, or need a package that is no dependency.
LONG   := bench/synthesis.py bench/asic.py bench/fingerprints.py bench/baselines.py bench/switched_campaign.py bench/auto.py bench/mutation.py \
  bench/figures.py bench/rtl_points.py bench/scale_sim.py bench/torch_suite.py bench/c10d_tests.py bench/torch_bits.py bench/torch_failures.py bench/torch_speed.py \
  bench/torch_clients.py bench/torch_groups.py
# Figures whose pictures docs/evaluation.md shows.
EVALUATION := bandwidth packets weak-scaling strong-scaling training training-overlap table-size baselines sensitivity
# CPU seconds of the longest command that `make figures` runs again; without it, all are run.
MAX_COST ?=
# What `make synth` measures: fp32 lanes without forwarding and with it. Without any of this, bench/synthesis.py sweeps more.
SYNTH  ?= --families ecp5 --only 1:16:float32:0:0,1:16:float32:0:512,4:16:float32:0:0,4:16:float32:0:512 --seeds 1,2,3
# Tests of one file share what they compile. Where a process of tests crashes, all end: what replaces it hangs.
PARALLEL := --numprocesses auto --dist loadfile --max-worker-restart 0

.NOTPARALLEL:
.SECONDARY:
.DEFAULT_GOAL := help
.PHONY: help demo verilog cocotb bench baselines auto evaluation synth asic figures check-figures test test-ci test-all install-all formal \
  formal-mutants coverage fault-campaign torch-suite clients mutation docs lint clean python compiler icarus chromium opensta

help: # list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*# \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: compiler $(STAMPS)/sim # 16 interfaces in RTL: MultiTree and both rings side by side
	@$(BIN)/multitree demo

verilog: $(STAMPS)/core # Verilog of the interface and all that goes with it, in build/ (SPEC=torus:4x4)
	@$(BIN)/multitree verilog $(SPEC) --out build

cocotb: compiler $(STAMPS)/cocotb # cocotb benches over the Verilog of a network (SPEC=torus:2x2 SIM=verilator)
	@$(BIN)/multitree cocotb $(if $(filter file,$(origin SPEC)),torus:2x2,$(SPEC)) $(if $(SIM),--sim $(SIM)) $(OPTIONS)

bench: compiler $(STAMPS)/sim # the measurements of bench/, printed as tables
	@for file in $(filter-out $(LONG),$(wildcard bench/[a-z]*.py)); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

baselines: compiler $(STAMPS)/sim # MultiTree and all baselines in RTL beside a peer; half an hour
	@$(BIN)/python bench/baselines.py

synth: $(STAMPS)/synth # area and clock on ECP5 of 1 and 4 ports, the slowest of three seeds; takes hours
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/synthesis.py $(SYNTH) $(OPTIONS)

asic: opensta $(STAMPS)/synth # area and static timing in cells of a library (LIBERTY="a.lib b.lib"); minutes
	@$(if $(LIBERTY),,echo 'make asic LIBERTY="a.lib b.lib": name the Liberty files of a library' >&2; exit 2)
	@$(BIN)/python bench/asic.py --liberty $(LIBERTY) $(OPTIONS)

auto: compiler $(STAMPS)/plots # every algorithm from 32 KiB to 1 GiB, and what auto takes; an hour
	@$(BIN)/python bench/auto.py --plots docs/plots

evaluation: $(STAMPS)/plots # the pictures of docs/evaluation.md; ten minutes
	@for name in $(EVALUATION); do $(BIN)/multitree figure $$name --out build/evaluation || exit; done
	@mkdir -p docs/plots/evaluation && cp build/evaluation/*.svg docs/plots/evaluation

figures: install-all $(STAMPS)/synth $(STAMPS)/plots # write all that the documents and tests have recorded again (MAX_COST=60)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/figures.py --write $(if $(MAX_COST),--max-cost $(MAX_COST))
	@$(BIN)/python bench/rtl_points.py
	@$(BIN)/python docs/timing.py
	@for module in tests.sim.exact.record tests.test_tutorials tests.test_documents; do \
	  echo "== $$module"; $(BIN)/python -m $$module || exit; done

check-figures: compiler $(STAMPS)/test $(STAMPS)/torch # run those again that take little; a difference is an error
	@$(BIN)/python bench/figures.py --check

torch-suite: $(STAMPS)/test $(STAMPS)/torch # PyTorch's own tests of torch.distributed, on gloo and on multitree; minutes
	@$(BIN)/python bench/torch_suite.py

clients: $(STAMPS)/clients # accelerate, Lightning, transformers, FSDP and others on gloo and on multitree; half an hour
	@$(CLIENTS)/bin/python bench/torch_clients.py $(OPTIONS)

fault-campaign: compiler $(STAMPS)/sim # 10 000 runs with faults on purpose: exact, or a named fault
	@$(BIN)/python bench/fault_campaign.py --runs 10000

test: compiler $(STAMPS)/test # the quick tests on a sample of their cases, and an all-reduce in RTL: some minutes
	@$(BIN)/python -m pytest $(PARALLEL) --sets 3 -m "not slow"

test-ci: install-all check-figures # cheap figures again, all but dear tests, and a quarter of these; a skip is a failure
	@MULTITREE_FORBID_SKIP=1 $(BIN)/python -m pytest $(PARALLEL) --ci

test-all: # everything, with PyTorch, Triton and Icarus; hours
	@MULTITREE_CI=all $(MAKE) test-ci

coverage: compiler $(STAMPS)/test # functional, line and toggle coverage of the random benches, in minutes
	@$(BIN)/python -m tests.cocotb.code_coverage

install-all: compiler icarus chromium $(STAMPS)/test $(STAMPS)/torch $(STAMPS)/triton # install what test-ci needs

formal: $(STAMPS)/formal # prove the properties of tests/formal, every parameter set
	@$(BIN)/python -m tests.formal.run

formal-mutants: $(STAMPS)/formal # seed a fault per property; each has to be caught
	@$(BIN)/python -m tests.formal.run --mutants

mutation: compiler $(STAMPS)/test $(STAMPS)/torch # mutants of hardware, models and backend, each to be noticed; hours
	@$(BIN)/python bench/mutation.py

docs: $(STAMPS)/docs $(STAMPS)/torch # the documentation as a site: build/docs/index.html
	@$(BIN)/sphinx-build -q -W --keep-going docs build/docs
	@echo "build/docs/index.html"

lint: $(STAMPS)/lint # style, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean: # remove what the other targets made in this folder
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@rm -rf *.egg-info src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Setting up. A stamp is older than pyproject.toml exactly when its extra has to be installed again.

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "MultiTree needs Python 3.11 or newer, and there is no '$(PYTHON)' on this machine." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "MultiTree needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V)." \
	    "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "MultiTree needs Python's venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }

compiler:
	@for tool in g++ perl; do command -v $$tool >/dev/null || { \
	  echo "MultiTree compiles its Verilog with Verilator, which needs $$tool; there is none on this" \
	    "machine (Debian and Ubuntu: apt-get install g++ make perl)." >&2; exit 1; }; done

icarus:
	@for tool in iverilog verilator yosys; do command -v $$tool >/dev/null || { \
	  echo "make test-ci runs the Verilog on the system's tools, too; there is no $$tool on this machine" \
	    "(Debian and Ubuntu: apt-get install iverilog verilator yosys). make test does without." >&2; exit 1; }; done

chromium:
	@for tool in chromium chromedriver; do command -v $$tool >/dev/null || { \
	  echo "make test-ci plays pages in Chromium; there is no $$tool on this machine" \
	    "(Debian and Ubuntu: apt-get install chromium chromium-driver). make test does without." >&2; exit 1; }; done

opensta:
	@command -v sta >/dev/null || { \
	  echo "make asic analyses timing with OpenSTA; there is no sta on this machine" \
	    "(Debian and Ubuntu: apt-get install opensta)." >&2; exit 1; }

$(STAMPS)/venv: | python
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/core: pyproject.toml | $(STAMPS)/venv
	@echo "Installing MultiTree into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# The release that tests run on: others would take a build for GPUs, of some gigabytes.
$(STAMPS)/torch: pyproject.toml | $(STAMPS)/venv
	@echo "Installing MultiTree and PyTorch into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[torch]' torch==2.13.0
	@touch $@

$(STAMPS)/clients: pyproject.toml | $(STAMPS)/venv
	@echo "Installing MultiTree, PyTorch and libraries that train into $(CLIENTS) ..."
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --editable '.[clients]' torch==2.13.0
	@touch $@

$(STAMPS)/%: pyproject.toml | $(STAMPS)/venv
	@echo "Installing MultiTree and what '$*' needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
