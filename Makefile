# The Transformer, Line by Line. `make help` lists what there is.

PYTHON ?= python3
# Where to take torch from instead of pip's usual place: see README.md.
TORCH_INDEX ?=
PORT ?= 8000
# For JupyterLab, such as --allow-root.
OPTIONS ?=

# All by `python -m`: the programs in .venv/bin name the folder that they were made in.
RUN := .venv/bin/python
# Whatever the terminal takes for its alphabet, the files of the book are UTF-8.
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help ready book test lab serve bundle pdf clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

ready:
	@$(PYTHON) scripts/environment.py $(TORCH_INDEX)

book: ready ## execute what changed, render the pages strictly, say where they are
	@$(RUN) scripts/build.py

test: book ## check the style, run every test and every notebook
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile

lab: ready ## open the notebooks in JupyterLab; as root: make lab OPTIONS=--allow-root
	@$(RUN) scripts/lab.py $(OPTIONS)

serve: book ## serve the pages on this computer alone
	@$(RUN) scripts/serve.py $(PORT)

bundle: book ## pack pages, notebooks, library and models into one archive
	@$(RUN) scripts/bundle.py

pdf: book ## print the whole book into one PDF, with Chromium
	@$(RUN) scripts/pdf.py

clean: ## delete the built pages and the executed notebooks
	rm -rf _build
