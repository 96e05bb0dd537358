# Sourced by the scripts: a headless Chromium, Debian's, unpacked in the cache. Nothing is installed.
#
# What the package depends on and this machine lacks is unpacked beside it, and a small program starts it
# with those libraries. A package with a font comes along: pages are looked at.
# shellcheck shell=bash

BROWSER=$CACHE/browser/chromium
BROWSER_PACKAGES=(chromium-headless-shell fonts-dejavu-core)

# Whether the browser in the cache is there and starts.
browser_is_current() {
  [ -x "$BROWSER" ] && "$BROWSER" --version >/dev/null 2>&1
}

# What would have to be installed here, one package a line.
_browser_missing() {
  apt-get --simulate --quiet --no-install-recommends install "${BROWSER_PACKAGES[@]}" |
    sed -n 's/^Inst \([^ ]*\).*/\1/p'
}

_browser_fetch() {
  local work=$1 packages package
  cd "$work" || return 1
  packages=$(_browser_missing) && [ -n "$packages" ] ||
    { slowly "apt-get update" apt-get update --quiet && packages=$(_browser_missing); } || return 1
  # One that is installed is not among them.
  packages=$(printf '%s\n' "${BROWSER_PACKAGES[@]}" "$packages" | sort -u)
  # shellcheck disable=SC2086  # one word each
  slowly "download of Chromium (some 90 MB)" apt-get download --quiet $packages || return 1
  for package in *.deb; do
    dpkg-deb --extract "$package" root || return 1
  done
  mkdir -p root/fonts
  cat >root/fonts/fonts.conf <<CONF
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$CACHE/browser/usr/share/fonts</dir>
  <cachedir>$CACHE/browser/fonts/cache</cachedir>
</fontconfig>
CONF
  cat >root/chromium <<START
#!/bin/sh
# Written by scripts/lib/browser.sh.
libraries=$CACHE/browser/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH="\$libraries:\$libraries/pulseaudio"
export FONTCONFIG_FILE=$CACHE/browser/fonts/fonts.conf
exec $CACHE/browser/usr/lib/chromium/chromium-headless-shell "\$@"
START
  chmod +x root/chromium
}

# ensure_browser: prints the path of a program that starts it, after fetching it on first use.
ensure_browser() {
  if ! browser_is_current; then
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
      die "no apt-get here to fetch a Chromium with; GPUMEM_BROWSER may name one"
    mkdir -p "$CACHE"
    (
      flock 9
      browser_is_current && exit 0
      work=$(mktemp -d "$CACHE/browser.XXXXXX")
      trap 'rm -rf "$work"' EXIT
      (_browser_fetch "$work") || exit 1
      rm -rf "$CACHE/browser"
      mv "$work/root" "$CACHE/browser"
    ) 9>"$CACHE/browser.lock" || die "no Chromium can be had"
    browser_is_current || die "the Chromium in $CACHE/browser does not start: $("$BROWSER" --version 2>&1 | tail -n 1)"
  fi
  printf '%s\n' "$BROWSER"
}
