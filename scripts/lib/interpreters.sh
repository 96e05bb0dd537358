# Sourced after environment.sh: plain CPythons that the tests need and that most machines lack.
#
# An interpreter is a folder ${XDG_CACHE_HOME:-~/.cache}/gpumem/python/VERSION. Its file
# `gpumem-stamp` is written last, so a folder without it is rebuilt. 3.14 and 3.15 are Debian's
# packages with the C library that they were built for, started with its loader; 3.13t (no GIL) is
# compiled from Debian's source package. All are downloaded by apt, from the archive that this
# machine is configured for, with signatures checked by Debian's keyring. Nothing is installed
# outside the folder, so no privileges are needed. Without such an archive, these interpreters are
# not available.
# shellcheck shell=bash

# The Debian suite that has all of them.
_SUITE=sid
_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

interpreter_folder() { printf '%s/python/%s\n' "$CACHE" "$1"; }

# Prints the path of a plain CPython of the given version ("3.12", "3.13t"): the machine's own, or
# one from `ensure_interpreter`. Fails if there is neither.
find_interpreter() {
  local folder
  find_python "$1" && return 0
  folder=$(interpreter_folder "$1")
  [ -f "$folder/gpumem-stamp" ] && printf '%s\n' "$folder/usr/bin/python$1"
}

# ensure_interpreter VERSION: creates it if the machine has none, and prints its path.
ensure_interpreter() {
  local version=$1 folder
  folder=$(interpreter_folder "$version")
  if ! find_interpreter "$version" >/dev/null; then
    mkdir -p "$CACHE/python"
    (
      flock 9
      [ -f "$folder/gpumem-stamp" ] || _make_interpreter "$version" "$folder"
    ) 9>"$CACHE/python/lock" || return 1
  fi
  find_interpreter "$version"
}

# Needs the lock to be held.
_make_interpreter() {
  local version=$1 folder=$2
  say "making CPython $version in $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  _read_archive || return 1
  case $version in
    *t) _compile_interpreter "${version%t}" "$folder" ;;
    *) _unpack_interpreter "$version" "$folder" ;;
  esac || return 1
  "$folder/usr/bin/python$version" -c 'import ctypes, sys; print(sys.version)' >"$folder/gpumem-stamp.new" &&
    mv "$folder/gpumem-stamp.new" "$folder/gpumem-stamp"
}

# apt with separate folders: from the machine's configuration it only reads how to reach the archive.
_apt() {
  local command=$1 own=$CACHE/python/apt
  shift
  "$command" -qq -o Dir::Etc::SourceList="$own/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$own/state" -o Dir::State::Status="$own/status" -o Dir::Cache="$own/cache" \
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}

# Downloads the suite's lists, unless they are at most a day old.
_read_archive() {
  local own=$CACHE/python/apt archive
  if ! command -v apt-get >/dev/null || [ "$(dpkg --print-architecture)" != amd64 ] || [ ! -f "$_KEYRING" ]; then
    printf '   this is no Debian on x86-64 with its archive keyring\n' >&2
    return 1
  fi
  archive=$(
    . /etc/os-release
    [ "$ID" != debian ] || apt-get indextargets --no-release-info \
      --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
      awk -v "release=$VERSION_CODENAME" '$1 == "main" && $2 == release { print $3; exit }'
  )
  if [ -z "$archive" ]; then
    printf '   apt is not configured for an archive of Debian\n' >&2
    return 1
  fi
  mkdir -p "$own/state/lists/partial" "$own/cache/archives/partial"
  [ -n "$(find "$own/read" -mtime -1 2>/dev/null)" ] && return 0
  : >"$own/status"
  printf '%s [arch=amd64 signed-by=%s] %s %s main\n' \
    deb "$_KEYRING" "$archive" "$_SUITE" deb-src "$_KEYRING" "$archive" "$_SUITE" >"$own/sources.list"
  slowly "lists of Debian $_SUITE" _apt apt-get update && touch "$own/read"
}

# _unpack_interpreter VERSION FOLDER: unpacks its Debian packages and their dependencies.
_unpack_interpreter() {
  local version=$1 folder=$2 archives=$CACHE/python/apt/cache/archives package
  rm -f "$archives"/*.deb
  slowly "packages of CPython $version (20 MB)" _apt apt-get install --download-only --yes \
    --no-install-recommends "libpython$version-stdlib" "python$version-minimal" "libpython$version" || return 1
  for package in "$archives"/*.deb; do
    dpkg-deb --extract "$package" "$folder" || return 1
  done
  rm -f "$archives"/*.deb
  # Removes links to configuration elsewhere.
  find "$folder" -xtype l -delete
  # With its own loader, because it may need a later C library than this machine's.
  mkdir -p "$folder/usr/libexec"
  mv "$folder/usr/bin/python$version" "$folder/usr/libexec/"
  cat >"$folder/usr/bin/python$version" <<SH
#!/bin/sh
exec "$folder/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" \\
  --library-path "$folder/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" \\
  --argv0 "\$0" \\
  "$folder/usr/libexec/python$version" "\$@"
SH
  chmod +x "$folder/usr/bin/python$version"
}

# _compile_interpreter VERSION FOLDER: builds it without the GIL, from Debian's source package. It
# runs in its build folder, because the installation takes as long as the build.
_compile_interpreter() {
  local version=$1 folder=$2 source=$2/source release archive=''
  mkdir -p "$source" "$folder/usr/bin"
  # The suite's list can be newer than its archive: takes the newest release whose source exists.
  for release in $(_apt apt-cache showsrc "python$version" | sed -n 's/^Version: //p' | sort -rV); do
    if (cd "$folder" && _apt apt-get source --download-only --tar-only "python$version=$release") 2>/dev/null; then
      archive=$(find "$folder" -maxdepth 1 -name '*.orig.tar.*' ! -name '*.asc')
      break
    fi
  done
  if [ -z "$archive" ]; then
    printf '   the source of CPython %s is not in the archive\n' "$version" >&2
    return 1
  fi
  tar -C "$source" --strip-components=1 -xf "$archive" &&
    rm "$archive" &&
    slowly "compilation of CPython ${version}t" _configure_and_make "$source" &&
    find "$source" -name '*.[oa]' -delete &&
    ln -s ../../source/python "$folder/usr/bin/python${version}t"
}

_configure_and_make() {
  cd "$1" &&
    ./configure -q --disable-gil --without-ensurepip --disable-test-modules CFLAGS='-O1 -g0' &&
    make -s -j"$(nproc)"
}

# Prints the folder of the package greenlet for a version of Python; downloaded on first use.
ensure_greenlet() {
  local version=$1 folder=$CACHE/greenlet/$1 pinned=greenlet==3.2.5 python
  # The last release for 3.8.
  [ "$version" != 3.8 ] || pinned=greenlet==3.1.1
  if [ "$(cat "$folder/gpumem-stamp" 2>/dev/null)" != "$pinned" ]; then
    python=$(ensure_environment tests) || return 1
    rm -rf "$folder"
    slowly "$pinned for Python $version" "$python" -m pip install --quiet --no-deps \
      --disable-pip-version-check --only-binary :all: --python-version "$version" \
      --target "$folder" "$pinned" || return 1
    printf '%s\n' "$pinned" >"$folder/gpumem-stamp"
  fi
  printf '%s\n' "$folder"
}
