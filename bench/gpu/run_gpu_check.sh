#!/usr/bin/env bash
# Checks and times this bundle's CUDA programs on the GPU of this machine: run_gpu_check.sh --help.
# PYTHON names the interpreter, the one that has PyTorch (default: python3).
exec "${PYTHON:-python3}" -B "$(dirname "${BASH_SOURCE[0]}")/harness/gpu_check.py" "$@"
