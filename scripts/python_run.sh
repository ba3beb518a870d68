#!/usr/bin/env bash
# Runs a Python script in the project's environment, which is made on the first use:
#   scripts/python_run.sh examples/tensor_parallel/make_decoder.py -o out --ranks 2
# Exit code 77 where the environment cannot be made: tests take it for "skipped".
set -euo pipefail
python=$("$(dirname "${BASH_SOURCE[0]}")/python_env.sh") || exit 77
exec "$python" "$@"
