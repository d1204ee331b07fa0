# The Transformer, Line by Line. `make help` lists the commands; make.py holds them.

PYTHON ?= python3
# An index to install torch from, instead of pip's default: see CONTRIBUTING.md.
export TORCH_INDEX
PORT ?= 8000
# Options of JupyterLab, such as --allow-root.
OPTIONS ?=

.DEFAULT_GOAL := help
.PHONY: help book quick style test slow lab serve bundle course pdf clean

help book quick style test slow bundle course pdf clean:
	@$(PYTHON) make.py $@

lab:
	@$(PYTHON) make.py lab $(OPTIONS)

serve:
	@$(PYTHON) make.py serve $(PORT)
