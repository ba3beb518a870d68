#!/usr/bin/env bash
# Sets everything up, builds the release preset and runs the fast tier of the tests. Arguments go to ctest:
#   scripts/test.sh -R runtime/
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_deps.sh
scripts/fetch_onnx.sh >/dev/null
scripts/python_env.sh >/dev/null
cmake --preset release -DBRAID_TEST_TIMEOUT=300 --log-level=WARNING
cmake --build --preset release
exec ctest --preset release "$@" </dev/null
