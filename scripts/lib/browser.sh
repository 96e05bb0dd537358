# Sourced by the scripts, after debian.sh: a headless Chromium from Debian, in the cache, with a font package
# for pictures of pages.
# shellcheck shell=bash

BROWSER=$CACHE/browser/chromium

# Whether the browser in the cache exists and starts.
browser_is_current() {
  [ -x "$BROWSER" ] && "$BROWSER" --version >/dev/null 2>&1
}

# Starts the browser in $CACHE/browser. Written to the folder that becomes $CACHE/browser.
_browser_finish() {
  mkdir -p "$1/fonts"
  cat >"$1/fonts/fonts.conf" <<CONF
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$CACHE/browser/usr/share/fonts</dir>
  <cachedir>$CACHE/browser/fonts/cache</cachedir>
</fontconfig>
CONF
  cat >"$1/chromium" <<START
#!/bin/sh
# Written by scripts/lib/browser.sh.
libraries=$CACHE/browser/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH="\$libraries:\$libraries/pulseaudio"
export FONTCONFIG_FILE=$CACHE/browser/fonts/fonts.conf
exec $CACHE/browser/usr/lib/chromium/chromium-headless-shell "\$@"
START
  chmod +x "$1/chromium"
}

# ensure_browser: prints the path of a program that starts it, and downloads it on first use.
ensure_browser() {
  if ! browser_is_current; then
    unpack_debian browser _browser_finish "Chromium (some 90 MB)" chromium-headless-shell fonts-dejavu-core ||
      die "no Chromium can be had; GPUMEM_BROWSER may name one"
    browser_is_current || die "the Chromium in $CACHE/browser does not start: $("$BROWSER" --version 2>&1 | tail -n 1)"
  fi
  printf '%s\n' "$BROWSER"
}
