# make demo, make test: each builds what it runs in first, once. Beyond Python (3.11, 3.12 or 3.13; PYTHON=… takes another
# one than requirements/find_python does) that takes g++ and Python's headers: Inductor compiles C++ that includes Python.h.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell requirements/find_python)
$(if $(PYTHON),,$(error no Python 3.11, 3.12 or 3.13 runs here; try: sudo apt-get install python3.11 python3.11-venv \
	python3.11-dev g++))
endif
RUN := .venv/bin/python
XLA := .venv-xla/bin/python

.PHONY: demo test tested lint bench false-alarms scenarios threads versions oldest newest newest-held gpu shows carriers docs dist screenshots venv venv-xla venv-shows venv-fleet engines jobs vllm

demo: venv
	@$(RUN) examples/demo.py

test:  # says at its end what it took, the environments' building included
	@$(PYTHON) tests/timed.py "make test" $(MAKE) --no-print-directory tested

tested:
	@$(MAKE) --no-print-directory -j2 venv venv-xla
	@mkdir -p build
	@$(XLA) -m pytest -m torch_xla >build/torch_xla.log 2>&1 & $(RUN) -m pytest -n 3 --dist loadfile; main=$$?; \
	wait $$!; xla=$$?; cat build/torch_xla.log; exit $$((main ? main : xla))  # torch_xla's fills where the others wait

lint: venv
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy --strict -p coldstep -p coldstep_collectors -p coldstep_viewers

bench: venv venv-xla
	@$(RUN) benchmarks/overhead.py --keep
	@$(XLA) benchmarks/compiles.py --keep torch_xla
	@$(XLA) benchmarks/marker.py --keep
	@$(RUN) benchmarks/inferring.py --keep
	@$(RUN) benchmarks/waits.py --keep

false-alarms: venv venv-xla  # how often something is said to have compiled unseen where all was seen; with a folder: its traces
	@$(RUN) benchmarks/false_alarms.py $(ONLY)

scenarios: venv  # torch_xla's run where venv-xla is built
	@cd tests && ../$(RUN) -m scenarios

threads: venv venv-xla  # public threads, judged by machine: half an hour; ONLY="jax_ weak": names with these
	@cd tests && ../$(RUN) -m threads $(ONLY)
	@cd tests && PJRT_DEVICE=CPU ../$(XLA) -m threads $(ONLY)

versions: venv  # hours, and 7 GB for some; ONLY="jax==0.9.2 torch==2.8.0" runs these, and keeps what is known of others
	@cd tests && ../$(RUN) -m scenarios.versions $(ONLY)

oldest: venv  # what CI runs of make versions: a minute or two, the environment's building included
	@cd tests && ../$(RUN) -m scenarios.versions --some 32 jax==0.4.35

newest: venv  # an hour: what pip gives today, on the newest Python that runs; ONLY="jax": this stack
	@cd tests && ../$(RUN) -m scenarios.newest $(ONLY)

newest-held: venv  # what CI runs of it: what requirements/newest.txt has of JAX, so that no release on PyPI breaks it
	@cd tests && ../$(RUN) -m scenarios.newest --held 32 jax

gpu:  # on a machine with an NVIDIA GPU: its own python3 and frameworks, no network; OUT=folder of the traces and the table
	@PYTHONPATH=tests python3 -m gpu $(or $(OUT),gpu-run)

shows: venv venv-xla venv-shows venv-fleet  # what costs more than its share of make test
	@PYTHONPATH=tests/helpers $(RUN) tests/private_names.py --output docs/evidence/private_names.md jax=$(RUN) torch=$(RUN) torch_xla=$(XLA) \
		tensorflow=$(RUN)
	@$(RUN) benchmarks/ahead/forecasts.py --output docs/evidence/forecast.md
	@.venv-shows/bin/python benchmarks/tensorflow_programs.py --output docs/evidence/tensorflow.md
	@.venv-shows/bin/python benchmarks/published/shows.py --output docs/evidence/shows.md  # fetches programs from GitHub
	@.venv-fleet/bin/python benchmarks/fleets/fleet.py --output docs/evidence/fleet.md  # needs Java 17 for Spark

carriers: venv  # every log of tests/log_specimens in every dressing (tests/helpers/log_dressings.py), cut anywhere, and changed
	@PYTHONPATH=tests:tests/helpers $(RUN) tests/unit/logs/test_log_carriers.py
	@PYTHONPATH=tests:tests/helpers $(RUN) tests/unit/logs/test_log_cuts.py
	@PYTHONPATH=tests/helpers $(RUN) tests/unit/logs/mutated_logs.py 10000 0

jobs: .venv-jobs/built  # every kind of job, kills, crowds: minutes, not in CI; ONLY="kinds": this table
	@cd tests && ../.venv-jobs/bin/python -m jobs $(ONLY)

engines: venv .venv-engines-torch/built .venv-engines-jax/built  # trainers that people use, tiny: minutes, not in CI
	@$(RUN) -m benchmarks.engines

vllm: .venv-vllm/built  # vLLM with a tiny model, offline and served: minutes, not in CI; what it wrote stays in vllm-run/
	@.venv-vllm/bin/python -m examples.vllm

docs: venv  # the site, at http://127.0.0.1:8000 until Ctrl-C
	@$(RUN) -m mkdocs serve -q -f "$$($(RUN) docs/build.py)"

dist: venv  # sdist and wheel in dist/, the wheel installed into an environment of its own, and tried there
	@$(RUN) changelog.d/fold.py  # the fragments become CHANGELOG.md's, and are gone: commit that
	@rm -rf dist build/clean
	@$(RUN) -c 'from setuptools import build_meta; build_meta.build_sdist("dist")' >/dev/null
	@$(RUN) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist dist/*.tar.gz
	@$(PYTHON) -m venv build/clean
	@build/clean/bin/python -m pip install -q --disable-pip-version-check dist/*.whl
	@build/clean/bin/coldstep --version
	@build/clean/bin/coldstep doctor
	@ls -l dist

screenshots: venv
	@$(RUN) docs/screenshots.py

venv: .venv/built

venv-xla: .venv-xla/built

venv-shows: .venv-shows/built

venv-fleet: .venv-fleet/built

.venv/built: requirements/main.txt requirements/docs.txt
.venv-xla/built: requirements/xla.txt
.venv-shows/built: requirements/shows.txt
.venv-fleet/built: requirements/fleet.txt
.venv-engines-torch/built: requirements/engines-torch.txt
.venv-engines-jax/built: requirements/engines-jax.txt
.venv-jobs/built: requirements/jobs.txt
.venv-vllm/built: requirements/vllm.txt
.venv-vllm/built: UNWANTED := torchvision torchaudio torchcodec  # vLLM runs without; PyPI's do not load beside a torch for CPUs
.venv/built .venv-xla/built .venv-shows/built .venv-fleet/built .venv-engines-torch/built .venv-engines-jax/built .venv-jobs/built \
		.venv-vllm/built: \
		setup.cfg entry_points.txt pyproject.toml requirements/common.txt tracer/coldstep.pth
	@version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
	missing=; \
	case "$$version" in 3.11|3.12|3.13) ;; *) missing=", Python 3.11, 3.12 or 3.13"; version=3.11 ;; esac; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing, Python's venv module"; \
	include=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null); \
	test -f "$$include/Python.h" || missing="$$missing, Python's headers"; \
	command -v g++ >/dev/null || missing="$$missing, g++"; \
	if [ -n "$$missing" ]; then \
		echo "missing: $${missing#, }; try: sudo apt-get install python$$version python$$version-venv python$$version-dev g++" >&2; \
		exit 2; \
	fi
	@echo "building $(@D): the frameworks and the tools (minutes, once)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check \
		$(patsubst %,-r %,$(filter-out %/common.txt,$(filter requirements/%,$^)))  # -qq: pip warns of what an index lacks
	@$(if $(UNWANTED),$(@D)/bin/python -m pip uninstall -qq -y $(UNWANTED))
	@flock setup.cfg $(@D)/bin/python -m pip install -qq --disable-pip-version-check -e .  # in a folder that both share
	@cp tracer/coldstep.pth "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"  # only a wheel brings it
	@touch $@
