# Short names for what Snakemake, DVC and the command `munkey` do. `make` lists them: the text after ## in a target's line,
# under the ##@ heading above it. Each first installs what is needed.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# How many jobs may use a GPU at once, spread over the GPUs of this machine: `make run GPUS=4`.
GPUS ?= 1
# How many CPU cores a run uses: `make run CORES=2`, e.g. where a container has a quota, which Snakemake does not see.
CORES ?= all
# The user of a container may have no home folder to write to.
ifneq ($(shell test -w "$$HOME" && echo writable),writable)
export XDG_CACHE_HOME ?= $(CURDIR)/cache/home
endif
# An overlay: `make run CONFIG=workflow/presets/cifar10-small.yaml`. Its results lie in a folder of their own; messages name it.
export MUNKEY_CONFIGFILES = $(CONFIG)
# Snakemake reads an overlay before the Snakefile, and of one that is not YAML names neither file nor line: hence the check.
RUN = $(if $(CONFIG),munkey check-files $(CONFIG) && )snakemake --cores $(CORES) --resources gpu=$(GPUS) $(if $(CONFIG),--configfile $(CONFIG))
# Of one overlay or several: cifar10-small, or cifar10-small-audit-cifar10-small.
NAMED = $(subst $() ,-,$(strip $(basename $(notdir $(CONFIG)))))
# What `make reproduce` runs; with REHEARSAL=1 the same in minutes.
PAPER := workflow/presets/paper.yaml $(if $(REHEARSAL),workflow/presets/rehearsal.yaml)
.PHONY: help run plan audits scenarios figures exports explore paper reproduce unlock repro publish ui report test soak lint style types format docs site bench lock

help:
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nWith other settings, e.g.: make run CONFIG=workflow/presets/ten-seeds.yaml\nEverything else: munkey --help\n'

##@ Experiment
run: .venv/ready  ## run the experiment of params.yaml, or go on where it stopped; TARGET="ablations selection": these instead
	$(RUN) $(if $(TARGET),-- $(TARGET))

plan: .venv/ready  ## estimate hours and disk before the first job
	munkey plan $(CONFIG) $(PLAN)

audits:  ## how much is left of what was deleted, in chapters of the report
figures:  ## the figures
exports:  ## trained models in directories of their own, ready for use
explore:  ## a page on which you look at single samples: before, after, neighbors, a map
paper:  ## every table and figure of the paper, and a report on one page
scenarios:  ## the same after other requests: a class, look-alikes, the hardest
audits figures exports explore paper scenarios: .venv/ready
	$(RUN) -- $@

reproduce: CONFIG := $(PAPER)
reproduce: .venv/ready  ## the paper's numbers beside ours, on a GPU; REHEARSAL=1: anywhere, in minutes
	munkey preflight $(CONFIG) --gpus $(GPUS)
	$(RUN) -- paper
	munkey compare-paper $(CONFIG)

unlock: .venv/ready  ## unlock the folder after Snakemake was killed; then run again
	$(RUN) --unlock

repro: .venv/ready  ## the same run through DVC
	$(if $(CONFIG),$(error `dvc repro` runs params.yaml alone: write there what $(CONFIG) changes))dvc repro

##@ Results
publish: .venv/ready  ## one file of the run that others can check; TARGET="all audits": with the audits
	$(RUN) -- $(or $(TARGET),all)
	munkey publish $(CONFIG) $(addprefix --target ,$(TARGET)) $(addprefix --with ,$(WITH))

ui: .venv/ready  ## start MLflow; the addresses that it prints first compare the methods; PORT=5001: there
	munkey mlflow ui $(CONFIG) $(if $(PORT),--port $(PORT))

report: .venv/ready  ## Snakemake's report: one page with the provenance of every file, tables and figures
	snakemake $(if $(CONFIG),--configfile $(CONFIG)) --report results/report$(if $(CONFIG),-$(NAMED)).html -- made

##@ Development
# In CI `make test MARKS="not soak or drawn"`: those that take long or start servers as well, and two that soak has.
test: .venv/ready  ## run the tests
	pytest $(if $(MARKS),-m "$(MARKS)") --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 15

soak: .venv/ready  ## run the tests that take many minutes: kills, damaged files, tutorial, website, rehearsal, random faults
	pytest -m soak -rP --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 0 --durations-min 15

SPELLED := py pyi smk md yaml rst toml cff j2 sh
lint: style types  ## check style and types

style: .venv/ready  ## check style, spelling, imports between packages, workflow
	lint-imports --no-cache --no-logo
	codespell $$(git ls-files Snakefile Makefile $(SPELLED:%='*.%'))
	ruff format --check . && ruff check . && snakefmt --check Snakefile workflow
	snakemake --lint

types: .venv/ready  ## check types
	mypy

format: .venv/ready  ## format all code
	ruff format . && ruff check --fix . && snakefmt Snakefile workflow

bench: .venv/ready  ## measure speed: training, input, deletion, evaluation, search, a whole run
	python -m benchmarks.run
	python -m benchmarks.grid

docs: .venv/ready  ## write the tables in the docs, from registries and kept results
	python -m tools.docs_tables README.md $(wildcard docs/*.md docs/gallery/*.md)

site: .venv/ready  ## build the website of the docs; then open site/index.html
	sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site . site

lock: .venv/ready  ## pin new dependencies; pins that still fit stay as they are
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --all-extras pyproject.toml -o requirements.lock

# These would stop every job later, with other words: launchers in .venv/bin are shell scripts, and Snakemake has {wildcards}.
.venv/ready: requirements.lock pyproject.toml
	@case "$$PWD" in *[\"\$$\`{}:]*) printf '%s\n' "The path of this folder, $$PWD, has one of the characters \" \$$ \` { } :" \
		"with which Python cannot start here. Rename or move the folder (spaces are fine), then run again." >&2; exit 1;; esac
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch .venv/ready
