#!/usr/bin/env bash
# Builds the wheel of the Python package into a folder (default: build/wheels) and prints its path:
#   pip install "$(scripts/build_wheel.sh)"
# It is for the Python of the project's environment and for Linux systems with this one's glibc or a newer one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-build/wheels}
python=$(scripts/python_env.sh)
mkdir -p "$out"
rm -f "$out"/braid-*.whl
# The same names as CMake chooses by itself: ccache then knows what the presets have compiled.
export CC=${CC:-cc} CXX=${CXX:-c++}
"$python" -m pip wheel . --no-deps --no-build-isolation --disable-pip-version-check --quiet --wheel-dir "$out" >&2
ls "$out"/braid-*.whl
