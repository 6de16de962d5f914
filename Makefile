# Everything a newcomer types. Python 3.11 to 3.13, plain venv and pip.
PYTHON ?= python3
BIN := .venv/bin
EDGE_BIN := .venv-edge/bin
INPUTS := constraints.txt requirements-dev.txt protos/pyproject.toml edge/pyproject.toml cloud/pyproject.toml
PROTOS := $(wildcard protos/sottovoce/v1/*.proto)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install bundle demo test lint bench protos clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: .venv/.done  ## Make .venv with everything: edge, cloud, tools

.venv/.done: $(INPUTS)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -r requirements-dev.txt -e protos -e 'edge[spacy]' -e cloud
	@touch $@

# The device's environment, as a Pi has it: no torch, no transformers.
.venv-edge/.done: $(INPUTS)
	$(PYTHON) -m venv .venv-edge
	$(EDGE_BIN)/pip install -c constraints.txt pytest hypothesis scipy -e protos -e 'edge[spacy]'
	@touch $@

bundle: install  ## Build the default bundle into build/bundle
	$(BIN)/sotto-cloud build-bundle --out build/bundle

demo: install  ## Watch a device daemon learn a task through a cloud, privately
	$(BIN)/python -m examples.helpdesk.demo

test: install .venv-edge/.done lint  ## Lint, then every test; the edge's without torch
	$(BIN)/sotto-cloud build-bundle --out build/bundle --if-stale
	$(EDGE_BIN)/pytest tests/edge
	$(BIN)/pytest tests/protos tests/cloud tests/e2e

lint: install  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p sottovoce.edge -p sottovoce.cloud -p bench -p examples

bench: install  ## List the benchmarks and what each prints
	@cat bench/README.md

protos: install  ## Regenerate the gRPC stubs from the .proto files
	cd protos && ../$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. $(PROTOS:protos/%=%)

clean:  ## Remove build products; environments stay
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
