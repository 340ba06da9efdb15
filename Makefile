# make demo, make test: each builds .venv first, once. Beyond Python 3.11 that takes g++ and Python's headers:
# Inductor compiles C++ that includes Python.h.
PYTHON := $(or $(shell command -v python3.11),python3)
RUN := .venv/bin/python
# errors only: pip warns of every package that one of several indexes lacks
PIP := $(RUN) -m pip install -qq --disable-pip-version-check

.PHONY: demo test lint bench venv

demo: venv
	@$(RUN) examples/demo.py

test: venv
	@$(RUN) -m pytest -n 2 --dist worksteal

lint: venv
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy --strict -p coldstep -p coldstep_collectors -p coldstep_viewers

bench: venv
	@$(RUN) benchmarks/overhead.py

venv: .venv/built

.venv/built: setup.cfg pyproject.toml requirements/main.txt
	@missing=; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || missing="$$missing, Python 3.11"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing, Python's venv module"; \
	include=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null); \
	test -f "$$include/Python.h" || missing="$$missing, Python's headers"; \
	command -v g++ >/dev/null || missing="$$missing, g++"; \
	if [ -n "$$missing" ]; then \
		echo "missing: $${missing#, }; try: sudo apt-get install python3.11 python3.11-venv python3.11-dev g++" >&2; \
		exit 2; \
	fi
	@echo "building .venv: torch, jax and the tools (minutes, once)"
	@test -x $(RUN) || $(PYTHON) -m venv .venv
	@$(PIP) -r requirements/main.txt
	@$(PIP) -e .
	@touch $@
