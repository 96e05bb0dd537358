# Sourced by the scripts: Python environments, each built once from tests/env/NAME.txt.
#
# An environment is a virtual environment in ${XDG_CACHE_HOME:-~/.cache}/gpumem/env/NAME. Its file
# `gpumem-stamp` holds a hash of the requirements and the Python version; a missing or different
# stamp means that it is rebuilt. An environment that already holds exactly the pinned versions is
# kept and only stamped.
# shellcheck shell=bash

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/gpumem

# Prints the path of a CPython of the given version ("3.12", without the GIL "3.13t") or fails.
find_python() {
  local version=$1 number=${1%t} candidate
  local without_gil=${version#"$number"}
  for candidate in \
    "$(command -v "python$version" 2>/dev/null)" \
    "$(command -v python3 2>/dev/null)" \
    "${PYENV_ROOT:-$HOME/.pyenv}/versions/$number".*"$without_gil"/bin/"python$version" \
    "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}/cpython-$number".*/bin/"python$version"; do
    [ -n "$candidate" ] && [ -x "$candidate" ] || continue
    # A pyenv shim also exists for versions that it cannot run, so run it, and print the path of the real
    # one.
    "$candidate" -c 'import sys
version = "%d.%d" % sys.version_info[:2] + "t" * ("t" in sys.abiflags)
ok = version == sys.argv[1] and sys.implementation.name == "cpython"
print(sys.executable) if ok else sys.exit(1)' "$version" 2>/dev/null && return 0
  done
  return 1
}

requirements_file() { printf '%s/tests/env/%s.txt\n' "$ROOT" "$1"; }

# Python versions for an environment, the best first.
environment_pythons() { sed -n 's/^# python: //p' "$(requirements_file "$1")"; }

# pip options for its requirements: `--no-deps` if another environment has their dependencies.
environment_options() { sed -n 's/^# pip: //p' "$(requirements_file "$1")"; }

# The environment whose packages are also on its path, after its own.
environment_beside() { sed -n 's/^# beside: //p' "$(requirements_file "$1")"; }

# environment_stamp NAME PYTHON: the stamp of an up-to-date environment.
environment_stamp() {
  {
    grep -v '^ *#' "$(requirements_file "$1")" | LC_ALL=C sort
    "$2" -c 'import platform; print(platform.python_version(), platform.machine())'
  } | sha256sum | cut -d' ' -f1
}

# Whether the environment is built and matches the current requirements.
environment_is_current() {
  local folder=$CACHE/env/$1
  [ -x "$folder/bin/python" ] && [ -f "$folder/gpumem-stamp" ] &&
    [ "$(cat "$folder/gpumem-stamp")" = "$(environment_stamp "$1" "$folder/bin/python")" ]
}

# Whether every pinned package is installed in its pinned version.
_environment_matches() {
  local folder=$CACHE/env/$1
  [ -x "$folder/bin/python" ] || return 1
  case " $(environment_pythons "$1") " in
    *" $("$folder/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') "*) ;;
    *) return 1 ;;
  esac
  "$folder/bin/python" - "$(requirements_file "$1")" <<'PY'
import sys
from importlib import metadata

for line in open(sys.argv[1]):
    line = line.strip()
    if line and not line.startswith("#"):
        name, pinned = line.split("==")
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            sys.exit(1)
        if found.split("+")[0] != pinned:
            sys.exit(1)
PY
}

# _put_beside PYTHON OTHER: adds the packages of OTHER, another environment's Python of the same version, to
# the path of PYTHON.
_put_beside() {
  [ -n "$2" ] || return 0
  local where
  where='import sysconfig; print(sysconfig.get_path("purelib"))'
  "$2" -c "$where" >"$("$1" -c "$where")/beside.pth"
}

# Builds the environment if it is missing or stale. Needs the lock to be held.
_build_environment() {
  local name=$1 folder=$CACHE/env/$1 version python beside
  beside=$(environment_beside "$name")
  if [ -n "$beside" ]; then
    beside=$(ensure_environment "$beside") || return 1
  fi
  if _environment_matches "$name"; then
    environment_stamp "$name" "$folder/bin/python" >"$folder/gpumem-stamp"
    return 0
  fi
  for version in $(environment_pythons "$name"); do
    python=$(find_python "$version") && break
  done
  if [ -z "${python:-}" ]; then
    printf '   environment %s: no Python %s on this machine\n' \
      "$name" "$(environment_pythons "$name" | sed 's/ / or /g')" >&2
    return 1
  fi
  say "making the Python environment $name in $folder ($python)"
  rm -rf "$folder"
  slowly "virtual environment" "$python" -m venv "$folder" &&
    _put_beside "$folder/bin/python" "$beside" &&
    slowly "pip install of $(grep -cv '^ *#' "$(requirements_file "$name")") packages" \
      "$folder/bin/python" -m pip install --quiet --disable-pip-version-check $(environment_options "$name") \
      --requirement "$(requirements_file "$name")" &&
    environment_stamp "$name" "$folder/bin/python" >"$folder/gpumem-stamp"
}

# ensure_environment NAME: builds it if necessary and prints the path of its Python.
ensure_environment() {
  local name=$1
  [ -f "$(requirements_file "$name")" ] || die "no requirements for an environment named $name"
  if ! environment_is_current "$name"; then
    mkdir -p "$CACHE/env"
    (
      flock 9
      environment_is_current "$name" || _build_environment "$name"
    ) 9>"$CACHE/env/$name.lock" || return 1
  fi
  printf '%s\n' "$CACHE/env/$name/bin/python"
}

# Prints the folder with NVIDIA's real libcudart.so.10.2, unpacked from a wheel on first use.
ensure_cudart102() {
  local folder=$CACHE/cudart102 downloads=$CACHE/dl wheel pinned python
  pinned=$(grep -v '^#' "$(requirements_file cudart102)")
  if [ "$(cat "$folder/gpumem-stamp" 2>/dev/null)" != "$pinned" ]; then
    python=$(ensure_environment tests) || return 1
    wheel=$downloads/torchvision-${pinned#*==}-cp310-cp310-manylinux1_x86_64.whl
    if [ ! -f "$wheel" ]; then
      mkdir -p "$downloads"
      slowly "download of $pinned (19 MB)" "$python" -m pip download --quiet --no-deps \
        --disable-pip-version-check --only-binary :all: --python-version 3.10 \
        --implementation cp --abi cp310 --platform manylinux1_x86_64 --dest "$downloads" "$pinned" || return 1
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" - "$wheel" "$folder" <<'PY' || return 1
import os, re, sys, zipfile

wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    names = [n for n in archive.namelist() if re.search(r"/libcudart[^/]*\.so\.10\.2$", n)]
    if len(names) != 1:
        sys.exit(f"{wheel}: expected one libcudart.so.10.2, found {names}")
    with open(os.path.join(folder, "libcudart.so.10.2"), "wb") as out:
        out.write(archive.read(names[0]))
os.chmod(os.path.join(folder, "libcudart.so.10.2"), 0o755)
PY
    printf '%s\n' "$pinned" >"$folder/gpumem-stamp"
  fi
  printf '%s\n' "$folder"
}
