#!/bin/sh
# Make /opt/onnxdyno from the locked requirements (wheels only, every hash checked) and the project's own wheel.
set -eu
python3 -m venv /opt/onnxdyno
/opt/onnxdyno/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r /tmp/runtime.txt
/opt/onnxdyno/bin/pip install --no-cache-dir --no-deps /tmp/dist/*.whl
/opt/onnxdyno/bin/python -m pip check
