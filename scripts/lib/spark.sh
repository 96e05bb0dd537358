# Sourced by the scripts, after environment.sh and debian.sh: Apache Spark, and a Java for it.
#
# PySpark is on PyPI only as source, 456 MB with all jars. Building a wheel would pack and unpack them once more, so
# they are laid out here as its setup.py does. Java 17 or 21 is the machine's own, or Debian's in the cache.
# shellcheck shell=bash

_PYSPARK=4.3.0
# Starts Python and spark-submit with Spark and Java.
SPARK=$CACHE/spark/start

_spark_stamp() { printf '%s %s\n' "$_PYSPARK" "$(cat "$CACHE/env/spark/gpumem-stamp" 2>/dev/null)"; }

# Whether Spark supports a Java.
_is_java() { "$1/bin/java" -version 2>&1 | grep -qE 'version "(17|21)[."]'; }

spark_is_current() {
  environment_is_current spark && [ "$(cat "$CACHE/spark/gpumem-stamp" 2>/dev/null)" = "$(_spark_stamp)" ] &&
    _is_java "$(cat "$CACHE/spark/java" 2>/dev/null)"
}

# Debian's packages link to configuration outside of them, by absolute paths.
_java_finish() {
  local root=$1 home=usr/lib/jvm/java-17-openjdk-amd64 link target
  while read -r link; do
    target=$(readlink "$link")
    [ ! -e "$root$target" ] || ln -sfn "$(realpath --relative-to="$(dirname "$link")" "$root$target")" "$link"
  done < <(find "$root/$home" -type l -lname '/*')
  _is_java "$root/$home"
}

# Prints the folder of a Java.
_ensure_java() {
  local own home=$CACHE/java17/usr/lib/jvm/java-17-openjdk-amd64
  if own=$(command -v java) && own=$(dirname "$(dirname "$(readlink -f "$own")")") && _is_java "$own"; then
    printf '%s\n' "$own"
    return 0
  fi
  if ! _is_java "$home"; then
    if [ "$(uname -m)" != x86_64 ]; then
      printf '   no Java 17 here, and Debian is asked for that of x86-64 only\n' >&2
      return 1
    fi
    unpack_debian java17 _java_finish "Java 17 (45 MB)" openjdk-17-jre-headless || return 1
  fi
  printf '%s\n' "$home"
}

# Needs the lock to be held.
_make_spark() {
  local folder=$CACHE/spark python java source program
  python=$(ensure_environment spark) && java=$(_ensure_java) || return 1
  say "making Spark $_PYSPARK in $folder"
  rm -rf "$folder"
  mkdir -p "$folder/fetched" "$folder/start"
  slowly "download of pyspark $_PYSPARK (456 MB)" "$python" -m pip download --quiet --disable-pip-version-check \
    --no-cache-dir --no-deps --no-binary pyspark --dest "$folder/fetched" "pyspark==$_PYSPARK" || return 1
  source=pyspark-$_PYSPARK
  slowly "unpacking of it" tar -C "$folder" -xzf "$folder/fetched/$source.tar.gz" \
    "$source/pyspark" "$source/deps/jars" "$source/deps/bin" "$source/deps/sbin" || return 1
  mv "$folder/$source/pyspark" "$folder/pyspark" &&
    mv "$folder/$source"/deps/* "$folder/pyspark/" &&
    rm -rf "$folder/fetched" "${folder:?}/$source"
  for program in python spark-submit; do
    cat >"$folder/start/$program" <<START
#!/bin/sh
# Written by scripts/lib/spark.sh.
export JAVA_HOME="$java" SPARK_HOME="$folder/pyspark" PYSPARK_PYTHON="$python" SPARK_LOCAL_IP=127.0.0.1
export PYTHONPATH="$folder\${PYTHONPATH:+:\$PYTHONPATH}"
exec $([ "$program" = python ] && printf '"%s"' "$python" || printf '"%s"' "$folder/pyspark/bin/$program") "\$@"
START
    chmod +x "$folder/start/$program"
  done
  printf '%s\n' "$java" >"$folder/java"
  "$folder/start/spark-submit" --version 2>/dev/null || "$folder/start/spark-submit" --version || return 1
  _spark_stamp >"$folder/gpumem-stamp"
}

# ensure_spark: prints the folder with `python` and `spark-submit`.
ensure_spark() {
  if ! spark_is_current; then
    mkdir -p "$CACHE"
    (
      flock 9
      spark_is_current || _make_spark >/dev/null
    ) 9>"$CACHE/spark.lock" || return 1
  fi
  printf '%s\n' "$SPARK"
}
