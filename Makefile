# Every command a person or CI needs. `make demo` and `make test` need nothing but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --universal -p 3.11
# Placeholders, so that the compose file can be checked; the real ones come from docker/.env.
COMPOSE_CHECK := env POSTGRES_PASSWORD=x AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x $(BIN)/docker-compose -f docker/compose.yaml

.PHONY: help setup demo test check format bench lock clean

help:
	@echo "make demo    benchmark four real models from a folder through the flows, and print their tables"
	@echo "make test    every test that this machine can run"
	@echo "make check   formatting, lint, types, import contracts, Dockerfile, compose file"
	@echo "make bench   the cost of measuring: the timing loop, and a model against a plain loop"
	@echo "make setup   the environment in $(VENV); make lock renews the pinned requirements; make clean removes both"

setup: $(STAMP)

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements/dev.txt requirements/uv.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(STAMP)
	$(BIN)/python benchmarks/real_models.py demo/registry
	$(BIN)/python -m flows.watch_registry --registry file:$(CURDIR)/demo/registry --results file:$(CURDIR)/demo/results
	@echo "Results: $(CURDIR)/demo/results (Parquet tables, and one summary .html, .md and .json per run)"
	@echo "Ask them: $(BIN)/onnxdyno query \"SELECT * FROM points\" --results file:demo/results"

test: $(STAMP)
	PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 --dist loadfile  # workers must collect in one order

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/hadolint docker/Dockerfile
	$(COMPOSE_CHECK) config --quiet
	$(COMPOSE_CHECK) --profile gpu config --quiet

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python benchmarks/loop_cost.py

lock:
	$(LOCK) pyproject.toml -o requirements/runtime.txt
	$(LOCK) pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	echo hatchling | $(LOCK) - -c requirements/dev.txt -o requirements/build.txt
	echo uv | $(LOCK) - -o requirements/uv.txt
	printf 'haoline==1.3.0\nspatialhub==0.1.7\nonnxruntime==1.31.1\npsutil\n' | \
		$(LOCK) - -c requirements/dev.txt -o requirements/bench.txt

clean:
	rm -rf $(VENV) .bench-venv .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
