# Sourced by scripts/test: the slices of the slow lane, from the table tests/lanes.txt.
# shellcheck shell=bash

LANES=$ROOT/tests/lanes.txt
SLICES=$(awk '$1 ~ /^[0-9]+$/ && $1 >= n { n = $1 + 1 } END { print n + 0 }' "$LANES")

# environments_of LANE: the environments that tests of the lane need, without the ones of all tests.
environments_of() {
  awk -v lane="$1" '$2 == "environment" && ($1 == "default" || lane == "all" || $1 == lane) && !seen[$3]++ { print $3 }' "$LANES"
}

# in_slice NAME: whether the lane in $lane has the slow tests of NAME, a file or `rust`.
in_slice() {
  # shellcheck disable=SC2154  # scripts/test sets it
  awk -v lane="$lane" -v name="$1" \
    '$2 == "tests" && $3 == name && (lane == "all" || $1 == lane) { found = 1 } END { exit !found }' "$LANES"
}

# The slice for this run of CI: of those that passed on this machine longest ago, the first one from the number of
# commits on. So each slow test runs at least at every sixth landing.
next_slice() {
  local first
  first=$(($(git -C "$ROOT" rev-list --count HEAD 2>/dev/null || echo 0) % SLICES))
  awk -v first="$first" -v slices="$SLICES" '
    { last[$1] = $2 }
    END {
      best = first
      for (i = 0; i < slices; i++) { n = (first + i) % slices; if (last[n] + 0 < last[best] + 0) best = n }
      print best
    }' <(cat "$CACHE/slices" 2>/dev/null)
}

# slice_passed LANE: stores the time at which a slice passed.
slice_passed() {
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  mkdir -p "$CACHE"
  printf '%s %s\n' "$1" "$(date +%s)" >>"$CACHE/slices"
}
