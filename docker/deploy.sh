#!/bin/sh
# Make the work pool of each device class if it is not there and deploy the flows to it; again is harmless.
# It needs PREFECT_API_URL, ONNXDYNO_REGISTRY and ONNXDYNO_RESULTS; ONNXDYNO_CLASSES names pool=device, e.g. "cpu=cpu gpu=cuda:0".
set -eu
: "${PREFECT_API_URL:?set it to the API of your Prefect server}"
: "${ONNXDYNO_REGISTRY:?the registry, file:/folder or s3://bucket/prefix}"
: "${ONNXDYNO_RESULTS:?where results go, file:/folder or s3://bucket/prefix}"
file=${1:-$(dirname "$0")/../share/prefect.yaml}
for class in ${ONNXDYNO_CLASSES:-cpu=cpu}; do
    ONNXDYNO_POOL=${class%%=*} ONNXDYNO_DEVICE=${class#*=}
    export ONNXDYNO_POOL ONNXDYNO_DEVICE
    prefect work-pool create "$ONNXDYNO_POOL" --type process --overwrite
    prefect --no-prompt deploy --all --prefect-file "$file"
done
