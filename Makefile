# Every command a person or CI needs. `make demo` and `make test` need nothing but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test check lock clean

setup: $(STAMP)

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements/dev.txt requirements/uv.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

lock:
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --universal \
		-p 3.11 pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --universal \
		-p 3.11 pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	echo uv | $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --universal \
		-p 3.11 - -o requirements/uv.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
