# One line each. `make run` and `make test` set everything up first.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# So many jobs may use a GPU at once, spread over the GPUs of this machine: `make run GPUS=4`.
GPUS ?= 1
# An overlay: `make run CONFIG=workflow/presets/cifar10-small.yaml`. Its results lie in a folder of their own.
RUN = $(if $(CONFIG),python -m munkey.pipeline.yaml_files $(CONFIG) && )snakemake --cores all --resources gpu=$(GPUS) $(if $(CONFIG),--configfile $(CONFIG))
# What `make reproduce` runs; with REHEARSAL=1 the same in minutes.
PAPER := workflow/presets/paper.yaml $(if $(REHEARSAL),workflow/presets/rehearsal.yaml)
# Of a configuration that is in results/ already: `make prune-runs NAME=cifar10-small`.
NAME ?= default
.PHONY: bench run plan test soak lint format docs keep lock unlock report track prune-runs ui repro ablations selection figures audits audit_grids relearning exports paper reproduce

run: .venv/ready  ## the whole experiment of params.yaml; with an overlay: make run CONFIG=FILE
	$(RUN)

plan: .venv/ready  ## what it will cost, before the first job; further options: make plan PLAN="--gpus 1,8,64"
	python -m munkey.pipeline.estimate $(CONFIG) $(PLAN)

test: .venv/ready  ## the tests
	pytest --numprocesses auto --dist loadfile

soak: .venv/ready  ## the tests that take many minutes: a thousand kills of the memory on disk, a rehearsal of the paper
	pytest -m soak

lint: .venv/ready  ## format and style, types, imports between rooms, workflow
	lint-imports --no-cache --no-logo
	ruff format --check . && ruff check . && snakefmt --check Snakefile workflow
	mypy
	snakemake --lint

format: .venv/ready
	ruff format . && ruff check --fix . && snakefmt Snakefile workflow

ablations selection figures audits audit_grids relearning exports: .venv/ready  ## ablations; choice of p_image and p_token; figures; what is left, and why; what comes back; models to use
	$(RUN) -- $@

paper: .venv/ready  ## every table and figure of the paper, and a report on one page
	$(RUN) -- paper

reproduce: CONFIG := $(PAPER)
reproduce: .venv/ready  ## the paper's experiment on a machine with a GPU, and its numbers beside ours; anywhere, in minutes: make reproduce REHEARSAL=1
	python -m munkey.pipeline.ready $(CONFIG) --gpus $(GPUS)
	$(RUN) -- paper
	python -m munkey.pipeline.reproduced $(CONFIG)

unlock: .venv/ready  ## after Snakemake was killed; then run again
	$(RUN) --unlock

report: .venv/ready  ## Snakemake's own report, one self-contained page
	snakemake $(if $(CONFIG),--configfile $(CONFIG)) --report results/report$(if $(CONFIG),-$(basename $(notdir $(CONFIG)))).html

track: .venv/ready  ## mirror the records in MLflow again, e.g. after dvc pull or when the store was deleted
	$(RUN) --forcerun track -- track

prune-runs: .venv/ready  ## list this configuration's superseded runs in MLflow; with YES=1, delete them
	python -m munkey.pipeline.prune $(NAME) $(if $(YES),--yes)

ui: .venv/ready  ## the MLflow UI; choose "Model training" at its top left
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false mlflow ui --workers 1 --backend-store-uri sqlite:///mlflow.db

repro: .venv/ready  ## the same run through DVC
	dvc repro

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch .venv/ready

bench: .venv/ready  ## speed of training, input, deletion, evaluation, retrieval and the memory on disk; where the time of a whole run goes
	python -m benchmarks.run
	python -m benchmarks.grid

keep: .venv/ready  ## copy the results that the docs show to docs/results/NAME: make keep NAME=default; then make docs
	python -m munkey.pipeline.keep $(NAME)

docs: .venv/ready  ## the tables in the docs: from the registries, docs/results and the benchmarks' results
	python -m munkey.pipeline.docs_tables README.md $(wildcard docs/*.md)
	python -m benchmarks.page docs/performance.md docs/memory.md

lock: .venv/ready  ## pin new dependencies; pins that still fit stay as they are
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --all-extras pyproject.toml -o requirements.lock
