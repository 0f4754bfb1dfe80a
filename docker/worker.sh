#!/bin/sh
# A Prefect worker for the device class of this machine. It needs PREFECT_API_URL.
set -eu
: "${PREFECT_API_URL:?set it to the API of your Prefect server, for example http://prefect:4200/api}"
exec prefect worker start --pool "${ONNXDYNO_POOL:?the work pool of this device class}" --type process \
    --with-healthcheck --install-policy never
