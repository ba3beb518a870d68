#!/usr/bin/env bash
# Builds with coverage counters, runs the tests and prints the lines covered per file of our own code.
# The page by line is written to build/coverage/report/index.html. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_deps.sh gcovr
scripts/fetch_onnx.sh >/dev/null
scripts/python_env.sh >/dev/null
cmake --preset coverage --log-level=WARNING
cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
ctest --preset coverage "$@" </dev/null
mkdir -p build/coverage/report
gcovr --root . --object-directory build/coverage --gcov-ignore-parse-errors \
  --filter '(ir|analysis|passes|solver|split|pipeline|frontend|codegen|driver|explain|runtime|harness|cli)/' --print-summary \
  --txt --html-details build/coverage/report/index.html build/coverage
