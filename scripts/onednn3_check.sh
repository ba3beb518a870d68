#!/usr/bin/env bash
# Builds Braid with oneDNN 3.x beside the distribution's and runs the tests that compare compiled programs with the interpreter.
# Debian 12 has 2.6; PyPI's last build of 3.x for OpenMP, 3.2, goes into an environment of its own. Other builds, such as a later
# distribution's: ONEDNN_PREFIX=/usr. Skipped without a network. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/onednn3
prefix=${ONEDNN_PREFIX:-$PWD/$build/onednn}
if [ ! -e "$prefix/include/oneapi/dnnl/dnnl.hpp" ]; then
  python3 -m venv "$prefix"
  if ! "$prefix/bin/pip" install --quiet --disable-pip-version-check onednn-devel-cpu-gomp==2023.2.0; then
    rm -rf "$prefix"
    echo "onednn3_check.sh: skipped: cannot download oneDNN 3.x"
    exit 0
  fi
fi
# The same flags as the preset, so that both share what ccache holds.
cmake --preset release -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DBRAID_ONEDNN=ON -DBRAID_BUILD_BENCH=OFF --log-level=WARNING
cmake --build "$build" --target test_codegen braid
version=$("$build/bin/braid" --version | tail -1)
echo "$version"
[[ $version == *"oneDNN 3."* ]] || { echo "onednn3_check.sh: not a build with oneDNN 3.x" >&2; exit 1; }
exec ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel 2 -R '^codegen/' "$@" </dev/null
