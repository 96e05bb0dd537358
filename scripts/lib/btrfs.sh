# Sourced by the scripts, after debian.sh: mkfs.btrfs, the machine's own or Debian's in the cache.
# shellcheck shell=bash

MKFS_BTRFS=$CACHE/btrfs-progs/start/mkfs.btrfs

# Starts mkfs.btrfs with the libraries in $CACHE/btrfs-progs. Written to the folder that becomes
# $CACHE/btrfs-progs.
_btrfs_finish() {
  mkdir -p "$1/start"
  cat >"$1/start/mkfs.btrfs" <<START
#!/bin/sh
# Written by scripts/lib/btrfs.sh.
export LD_LIBRARY_PATH="$CACHE/btrfs-progs/lib/x86_64-linux-gnu:$CACHE/btrfs-progs/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
for folder in sbin usr/sbin bin usr/bin; do
  program=$CACHE/btrfs-progs/\$folder/mkfs.btrfs
  if [ -x "\$program" ]; then exec "\$program" "\$@"; fi
done
exit 127
START
  chmod +x "$1/start/mkfs.btrfs"
}

# ensure_btrfs: prints the path of mkfs.btrfs.
ensure_btrfs() {
  command -v mkfs.btrfs && return 0
  if ! "$MKFS_BTRFS" --version >/dev/null 2>&1; then
    unpack_debian btrfs-progs _btrfs_finish btrfs-progs btrfs-progs || return 1
    "$MKFS_BTRFS" --version >/dev/null || return 1
  fi
  printf '%s\n' "$MKFS_BTRFS"
}
