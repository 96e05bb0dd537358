# Sourced by the scripts, after debian.sh: the folder of prometheus and promtool, the machine's own or Debian's in the cache.
# shellcheck shell=bash

PROMETHEUS=$CACHE/prometheus/usr/bin

# ensure_prometheus: prints the folder.
ensure_prometheus() {
  if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    dirname "$(command -v promtool)"
    return 0
  fi
  if ! "$PROMETHEUS/promtool" --version >/dev/null 2>&1; then
    unpack_debian prometheus : Prometheus prometheus || return 1
    "$PROMETHEUS/promtool" --version >/dev/null || return 1
  fi
  printf '%s\n' "$PROMETHEUS"
}
