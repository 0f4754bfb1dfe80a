#!/bin/sh
# What the running image needs of the system: an init, a locale, a user without rights, and folders that are its own.
# Arguments: further Debian packages.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends ca-certificates locales tini "$@"
rm -rf /var/lib/apt/lists/*
sed -i 's/^# *en_US.UTF-8 UTF-8/en_US.UTF-8 UTF-8/' /etc/locale.gen
locale-gen
groupadd --gid 10001 onnxdyno
useradd --uid 10001 --gid 10001 --home-dir /var/lib/onnxdyno --no-create-home --shell /usr/sbin/nologin onnxdyno
install -d -o onnxdyno -g onnxdyno /var/lib/onnxdyno /var/lib/onnxdyno/prefect /var/cache/onnxdyno /run/lock/onnxdyno
