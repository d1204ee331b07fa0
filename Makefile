# The Transformer, Line by Line. `make help` lists what there is.

PYTHON ?= python3
# Where to take torch from instead of pip's usual place: see README.md.
TORCH_INDEX ?=
PORT ?= 8000

BIN := .venv/bin
READY := .venv/ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help book test lab serve bundle pdf clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.txt
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),$(BIN)/pip install --index-url $(TORCH_INDEX) $$(grep ^torch== requirements.txt))
	$(BIN)/pip install --requirement requirements.txt
	touch $@

book: $(READY) ## execute what changed, render the pages strictly, say where they are
	@$(BIN)/python scripts/build.py

test: book ## check the style, run every test and every notebook
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest

lab: $(READY) ## open the notebooks in JupyterLab
	@$(BIN)/python -m transformer_lib.javascript models/multi30k-en-de book/_static/made/translator.js
	$(BIN)/jupyter-lab --notebook-dir=book

serve: book ## serve the pages on this computer alone
	@echo "http://127.0.0.1:$(PORT)/"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

bundle: book ## pack pages, notebooks, library and models into one archive
	@$(BIN)/python scripts/bundle.py

pdf: book ## print the whole book into one PDF, with Chromium
	@$(BIN)/python scripts/pdf.py

clean: ## delete the built pages and the executed notebooks
	rm -rf _build
