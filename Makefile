# The Transformer, Line by Line. `make help` lists the commands.

PYTHON ?= python3
# An index to install torch from, instead of pip's default: see CONTRIBUTING.md.
TORCH_INDEX ?=
PORT ?= 8000
# Options of JupyterLab, such as --allow-root.
OPTIONS ?=

# Use `python -m`: scripts in .venv/bin contain the path they were installed to.
RUN := .venv/bin/python
# One thread per worker, and one worker per core.
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest -n logical --maxprocesses=8
# Force UTF-8 regardless of the terminal's locale.
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help ready book quick style test slow lab serve bundle pdf clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

ready:
	@$(PYTHON) scripts/environment.py $(TORCH_INDEX)

book: ready ## build the book (warnings are errors), executing only what changed
	@$(RUN) scripts/programs.py cc
	@$(RUN) scripts/build.py

style: ready
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

quick: style ## a minute after each edit: style and library, without book or browser
	$(PYTEST) tests --dist worksteal -m "not (slow or browser or book or program)"

test: book style ## style, library, every notebook, and every page once in a browser
	@$(RUN) scripts/programs.py chromium
	$(PYTEST) tests --dist worksteal -m "not slow"
	$(PYTEST) book --dist loadfile

slow: book ## the rest: build, PDF, archive, JupyterLab, processes, phone widths
	@$(RUN) scripts/programs.py chromium
	$(PYTEST) tests --dist worksteal -m slow

lab: ready ## open the notebooks in JupyterLab; as root: make lab OPTIONS=--allow-root
	@$(RUN) scripts/lab.py $(OPTIONS)

serve: book ## serve the pages on localhost
	$(RUN) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

bundle: book ## pack pages, notebooks, library and models into one archive
	@$(RUN) scripts/bundle.py

pdf: book ## print the whole book into one PDF
	@$(RUN) scripts/programs.py chromium
	@$(RUN) scripts/pdf.py

clean: ## delete the built pages and the executed notebooks
	rm -rf _build
