# Sourced by the scripts, after debian.sh: heaptrack, the machine's own or Debian's in the cache.
# shellcheck shell=bash

HEAPTRACK=$CACHE/heaptrack/start/heaptrack

# Starts each of its programs with the libraries in $CACHE/heaptrack. Written to the folder that becomes
# $CACHE/heaptrack.
_heaptrack_finish() {
  local program
  mkdir -p "$1/start"
  for program in heaptrack heaptrack_print; do
    cat >"$1/start/$program" <<START
#!/bin/sh
# Written by scripts/lib/heaptrack.sh.
export LD_LIBRARY_PATH="$CACHE/heaptrack/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec $CACHE/heaptrack/usr/bin/$program "\$@"
START
    chmod +x "$1/start/$program"
  done
}

# ensure_heaptrack: prints its path; heaptrack_print is in the same folder.
ensure_heaptrack() {
  command -v heaptrack && return 0
  if ! "$HEAPTRACK" --version >/dev/null 2>&1; then
    unpack_debian heaptrack _heaptrack_finish heaptrack heaptrack libheaptrack || return 1
    "$HEAPTRACK" --version >/dev/null && "${HEAPTRACK}_print" --version >/dev/null || return 1
  fi
  printf '%s\n' "$HEAPTRACK"
}
