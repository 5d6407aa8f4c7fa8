# `make` lists the targets: the text after ## in a target's line, under the ##@ heading above it. Each target first installs
# what is needed.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# How many jobs may use a GPU at once, spread over the GPUs of this machine: `make run GPUS=4`.
GPUS ?= 1
# An overlay: `make run CONFIG=workflow/presets/cifar10-small.yaml`. Its results lie in a folder of their own; messages name it.
export MUNKEY_CONFIGFILES = $(CONFIG)
RUN = $(if $(CONFIG),python -m munkey.experiment.params.yaml_files $(CONFIG) && )snakemake --cores all --resources gpu=$(GPUS) $(if $(CONFIG),--configfile $(CONFIG))
# Of one overlay or several: cifar10-small, or cifar10-small-audit-cifar10-small.
NAMED = $(subst $() ,-,$(strip $(basename $(notdir $(CONFIG)))))
# What `make reproduce` runs; with REHEARSAL=1 the same in minutes.
PAPER := workflow/presets/paper.yaml $(if $(REHEARSAL),workflow/presets/rehearsal.yaml)
# The name of a configuration that is in results/ already: `make prune-runs NAME=cifar10-small`.
NAME ?= default
.PHONY: help run plan test soak lint format docs site keep entry lock bench unlock report track prune-runs ui repro ablations selection figures audits audit_grids relearning exports paper reproduce

help:
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nWith other settings, e.g.: make run CONFIG=workflow/presets/ten-seeds.yaml\n'

##@ Experiment
run: .venv/ready  ## run the whole experiment of params.yaml, or go on where it stopped
	$(RUN)

plan: .venv/ready  ## estimate hours, memory and disk before the first job
	munkey plan $(CONFIG) $(PLAN)

unlock: .venv/ready  ## unlock the folder after Snakemake was killed; then run again
	$(RUN) --unlock

repro: .venv/ready  ## the same run through DVC
	$(if $(CONFIG),$(error `dvc repro` runs params.yaml alone: write there what $(CONFIG) changes))dvc repro

##@ More of the experiment
audits:  ## how much is left of what was deleted
audit_grids:  ## what the weights keep, by how they are trained
relearning:  ## whether what was forgotten comes back under further training
ablations:  ## one knob of MUNKEY at a time
selection:  ## the choice of p_image and p_token
figures:  ## the figures
exports:  ## trained models in directories of their own, ready for use
paper:  ## every table and figure of the paper, and a report on one page
audits audit_grids relearning ablations selection figures exports paper: .venv/ready
	$(RUN) -- $@

reproduce: CONFIG := $(PAPER)
reproduce: .venv/ready  ## the paper's numbers beside ours, on a GPU; REHEARSAL=1: anywhere, in minutes
	python -m munkey.experiment.cost.preflight $(CONFIG) --gpus $(GPUS)
	$(RUN) -- paper
	python -m munkey.cli.compare_paper $(CONFIG)

##@ Results
ui: .venv/ready  ## start MLflow; the addresses that it prints first compare the methods
	python -m munkey.cli.ui $(CONFIG)

report: .venv/ready  ## Snakemake's report: one page with the provenance of every file, tables and figures
	snakemake $(if $(CONFIG),--configfile $(CONFIG)) --report results/report$(if $(CONFIG),-$(NAMED)).html -- made

track: .venv/ready  ## mirror the results in MLflow again, e.g. after dvc pull
	python -m munkey.cli.sync $(CONFIG)

prune-runs: .venv/ready  ## list superseded runs in MLflow; with YES=1, delete them
	python -m munkey.cli.prune $(NAME) $(if $(YES),--yes)

##@ Development
test: .venv/ready  ## run the tests
	pytest --numprocesses auto --dist loadfile --durations 40 --durations-min 15

soak: .venv/ready  ## run the tests that take many minutes: kills of the memory, damaged files, the tutorial, the website, a rehearsal of the paper, random faults
	pytest -m soak -rP

lint: .venv/ready  ## check style, types, imports between packages, workflow
	lint-imports --no-cache --no-logo
	ruff format --check . && ruff check . && snakefmt --check Snakefile workflow
	mypy
	snakemake --lint

format: .venv/ready  ## format all code
	ruff format . && ruff check --fix . && snakefmt Snakefile workflow

bench: .venv/ready  ## measure speed: training, input, deletion, evaluation, search, a whole run
	python -m benchmarks.run
	python -m benchmarks.grid

keep: .venv/ready  ## copy the results that the docs show to docs/results; NAME=default
	python -m tools.copy_results $(NAME)

entry: .venv/ready  ## write the results of an entry of the leaderboard, e.g. ENTRY=leaderboard/my-method
	python -m tools.write_entry $(ENTRY)

docs: .venv/ready  ## write the tables in the docs, from registries, kept results and entries
	python -m tools.docs_tables README.md $(wildcard docs/*.md)
	python -m benchmarks.page $(wildcard docs/*.md)

site: .venv/ready  ## build the website of the docs; then open site/index.html
	sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site . site

lock: .venv/ready  ## pin new dependencies; pins that still fit stay as they are
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --all-extras pyproject.toml -o requirements.lock

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch .venv/ready
