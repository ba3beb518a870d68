#!/usr/bin/env bash
# Brings ONNX's source distribution into the cache (outside the tree) and prints where it lies.
# Does nothing when it is there already. BRAID_CACHE_DIR moves the cache.
set -euo pipefail
version=1.23.2
sha256=008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8
cache=${BRAID_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/braid}
dir=$cache/onnx-$version
if [ ! -e "$dir/.complete" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
fi
if [ ! -e "$dir/.complete" ]; then
  tmp=$(mktemp -d "$cache/onnx.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary onnx "onnx==$version" -d "$tmp" >&2; then
    echo "fetch_onnx.sh: cannot download ONNX $version. Without a network, unpack its source distribution and configure with -DONNX_SOURCE_DIR=<folder>" >&2
    exit 1
  fi
  echo "$sha256  $tmp/onnx-$version.tar.gz" | sha256sum --check --quiet >&2
  tar -xzf "$tmp/onnx-$version.tar.gz" -C "$tmp"
  # ONNX asks for CMake 3.26 but uses nothing that Debian 12's 3.25 lacks.
  sed -i 's/cmake_minimum_required(VERSION 3.26)/cmake_minimum_required(VERSION 3.25)/' "$tmp/onnx-$version/CMakeLists.txt"
  touch "$tmp/onnx-$version/.complete"
  rm -rf "$dir"
  mv "$tmp/onnx-$version" "$dir"
fi
echo "$dir"
