# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Everything a developer does. A machine needs Python >= 3.11 with venv, make and git; the rest comes from package registries.

PYTHON ?= python3
NODES ?= lab
NAME ?= default
# Test processes at once; each integration process has test beds of its own (0.7 GB each).
WORKERS ?= 2
# Property tests run the full number of examples in `make test`; say HYPOTHESIS_PROFILE=dev for 50 each.
HYPOTHESIS_PROFILE ?= ci

export HYPOTHESIS_PROFILE
# The tools are found in .venv first; a caller's PYTHONPATH or Ansible settings must not get in.
unexport PYTHONPATH ANSIBLE_CONFIG ANSIBLE_COLLECTIONS_PATH ANSIBLE_COLLECTIONS_PATHS

RUN := .venv/bin/python
PYTEST := .venv/bin/pytest

.DEFAULT_GOAL := help
.PHONY: help venv binaries demo test checks lint unit integration testbed testbed-down bench molecule docs test-reliability fuzz

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -e 's/:.*##/\t/' | expand -t 20

venv: .venv/.complete .cache/collections/.complete ## the tools in .venv, kubernetes.core in .cache

.venv/.complete: requirements.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	@echo "installing the tools into .venv (some 120 packages)"
	@$(PYTHON) -m venv .venv
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.txt -c constraints.txt
	@touch $@

.cache/collections/.complete: tests/collections_tree.py | .venv/.complete
	@$(RUN) -m tests.collections_tree
	@touch $@

binaries: .venv/.complete # the test bed's programs, built once into the user's cache directory
	@$(RUN) -m tests.testbed.build

demo: venv binaries ## the main job on the lab: install, share GPUs, verify; then a changed replica count
	@$(RUN) -m tests.demo

test: venv ## all tests: lint, unit, integration, molecule (the programs are built beside the first two)
	@$(MAKE) --no-print-directory -j2 binaries checks
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory molecule
	@echo "all tests passed"

checks: venv
	@$(MAKE) --no-print-directory -j1 lint
	@$(MAKE) --no-print-directory -j1 unit

lint: venv ## static checks: ruff, mypy, yamllint, ansible-lint, ansible-test sanity, documentation
	@$(RUN) -m tests.lint

unit: venv ## tests without a cluster
	@$(PYTEST) -q -n $(WORKERS) --timeout=900 tests/unit tests/testbed/tests

integration: venv binaries ## tests on test beds: a real control plane each
	@$(PYTEST) -v -n $(WORKERS) --dist loadfile --no-loadscope-reorder --timeout=900 tests/integration

testbed: venv binaries ## start a cluster on loopback: NODES=lab, fleet:N or a YAML file; NAME=default
	@$(RUN) -m tests.testbed up --name $(NAME) --nodes $(NODES)

testbed-down: venv ## stop it and remove its files: NAME=default
	@$(RUN) -m tests.testbed down --name $(NAME)

bench: venv binaries ## measure the collection against other ways on 100, 1000 and 5000 nodes (hours; SIZES=100 for less)
	@$(RUN) -m tests.benchmark $(if $(SIZES),--sizes $(SIZES))

test-reliability: venv binaries ## every operation with every fault between client and API server, then every kill and every missing right (hours)
	@$(RUN) -m tests.reliability
	@$(PYTEST) -v -m reliability --timeout=3600 tests/integration

fuzz: venv ## a hundred thousand hostile inputs, some 20 minutes (CASES=2000 for fewer)
	@$(RUN) -m tests.fuzz $(if $(CASES),--cases $(CASES))

molecule: venv binaries ## the molecule scenarios on a test bed (SCENARIO=kind needs Docker)
	@ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/collections PATH=$(CURDIR)/.venv/bin:$$PATH molecule test $(addprefix --scenario-name ,$(or $(SCENARIO),default removal))

docs: venv ## the page of findings, and every plugin's and role's page in .cache/docs
	@$(RUN) -m tests.findings_page
	@mkdir -p .cache/docs
	@ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/collections PATH=$(CURDIR)/.venv/bin:$$PATH antsibull-docs collection --use-current --dest-dir .cache/docs gpuops.mps
