# Sourced by the scripts: programs from Debian packages, unpacked in the cache. Nothing is installed.
#
# Dependencies that this machine lacks are unpacked into the same folder; the program is then started with
# those libraries.
# shellcheck shell=bash

# The packages that would have to be installed here, one per line.
_debian_missing() {
  apt-get --simulate --quiet --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\).*/\1/p'
}

# _debian_fetch ROOT WHAT PACKAGE…: unpacks the packages and their dependencies in ROOT, even if they are
# installed here.
_debian_fetch() {
  local root=$1 what=$2 packages package
  shift 2
  mkdir -p "$root" && cd "$root/.." || return 1
  packages=$(_debian_missing "$@") ||
    { slowly "apt-get update" apt-get update --quiet && packages=$(_debian_missing "$@"); } || return 1
  packages=$(printf '%s\n' "$@" $packages | sort -u)
  # shellcheck disable=SC2086  # one word each
  slowly "download of $what" apt-get download --quiet $packages ||
    { slowly "apt-get update" apt-get update --quiet &&
      slowly "download of $what" apt-get download --quiet $packages; } || return 1
  for package in *.deb; do
    dpkg-deb --extract "$package" "$root" || return 1
  done
}

# unpack_debian NAME FINISH WHAT PACKAGE…: recreates $CACHE/NAME from the packages; FINISH is called with
# the folder that becomes $CACHE/NAME.
unpack_debian() {
  local name=$1 finish=$2 what=$3
  shift 3
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    printf '   no apt-get here to fetch %s with\n' "$what" >&2
    return 1
  }
  mkdir -p "$CACHE"
  (
    flock 9
    work=$(mktemp -d "$CACHE/$name.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (_debian_fetch "$work/root" "$what" "$@") && "$finish" "$work/root" || exit 1
    rm -rf "${CACHE:?}/$name"
    mv "$work/root" "$CACHE/$name"
  ) 9>"$CACHE/$name.lock"
}
