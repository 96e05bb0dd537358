# Sourced by the scripts: their help, the repository's path, messages, progress.
# shellcheck shell=bash

# With -h or --help first, a script prints the comment at its top.
case ${1:-} in
  -h | --help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Folder of the built libraries and programs. scripts/test names the one of its profile.
BUILT=${GPUMEM_BUILT:-$ROOT/target/release}

if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then
  _bold=$'\e[1m' _red=$'\e[31m' _plain=$'\e[0m'
else
  _bold='' _red='' _plain=''
fi

# Prints a message about the current work on stderr, because stdout is for the result.
say() { printf '%s== %s%s\n' "$_bold" "$*" "$_plain" >&2; }

# Prints an error message and exits.
die() {
  printf '%s%s: %s%s\n' "$_red" "$(basename "$0")" "$*" "$_plain" >&2
  exit 1
}

# slowly LABEL COMMAND…: runs a slow command. Its output goes to a log; meanwhile a line shows the
# elapsed seconds (redrawn on a terminal, every 20 s elsewhere). On failure the end of the log is
# shown.
slowly() {
  local label=$1 log began status
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/gpumem-log.XXXXXX")
  began=$SECONDS
  "$@" >"$log" 2>&1 &
  local worker=$!
  # Ctrl-C must stop the command, too.
  trap 'kill "$worker" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
  local shown=0 elapsed
  while kill -0 "$worker" 2>/dev/null; do
    elapsed=$((SECONDS - began))
    if [ -t 2 ]; then
      printf '\r   %s … %d s' "$label" "$elapsed" >&2
    elif [ $((elapsed - shown)) -ge 20 ]; then
      printf '   %s … %d s\n' "$label" "$elapsed" >&2
      shown=$elapsed
    fi
    sleep 0.5
  done
  wait "$worker" && status=0 || status=$?
  trap - INT TERM
  if [ -t 2 ]; then printf '\r\e[K' >&2; fi
  if [ "$status" -ne 0 ]; then
    printf '%s   %s failed (exit %d):%s\n' "$_red" "$label" "$status" "$_plain" >&2
    tail -n 30 "$log" >&2
  else
    printf '   %s: %d s\n' "$label" "$((SECONDS - began))" >&2
  fi
  rm -f "$log"
  return "$status"
}
