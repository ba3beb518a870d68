#!/usr/bin/env bash
# The deep tier: the same random tests as scripts/test.sh with many more cases. Takes hours.
#   BRAID_RANDOM_SCALE  how many times the cases of the fast tier (default 100)
#   BRAID_TEST_SEED     first seed; random tests print the one they used
# Arguments go to ctest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_deps.sh
scripts/fetch_onnx.sh >/dev/null
scripts/python_env.sh >/dev/null
cmake --preset release -DBRAID_TEST_TIMEOUT=36000 --log-level=WARNING  # ctest --timeout is only for tests without one
cmake --build --preset release
cmake --preset alone --log-level=WARNING
cmake --build --preset alone
# Ranks that die, stall or disagree: timing decides what they test.
ctest --preset release --timeout 36000 -R '^(runtime/(.*(Fault|InFlight|Disagreement|Environment)|mpi/(mismatch|stall|missing|fingerprint|abort|killed))|cli/.*(RankFaults|Interrupt)|emulated/NcclProcessLife)' --repeat until-fail:100 </dev/null
# Every published model, and networks as large as published.
scripts/python_run.sh tests/real_models/real_models.py test build/release/bin/braid "${BRAID_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/braid}/real_models"
scripts/python_run.sh tests/real_models/real_models.py networks --full build/release/bin/braid build/release/real_models
# Every exported architecture, compiled.
scripts/python_run.sh tests/models/make_models.py build/release/test_models
build/release/bin/braid test --quiet --rtol 1e-4 --atol 1e-5 build/release/test_models/architectures/*
# Random chains of operators: 10,000 and more.
scripts/python_run.sh tests/models/random_chains.py build/release/deep_chains --models 1500
for target in interpreter cpu 'cuda --device emulated'; do
  find build/release/deep_chains -mindepth 1 -maxdepth 1 | sort | xargs -n 100 build/release/bin/braid test --quiet --target $target
done
# Every operator as a C++ program, plain and split, with a tolerance for sums of bf16 that cancel. SplitCases holds splits to the plain model
# by a narrower one, in the interpreter. Bernoulli draws at random.
for split in '' '--tp 2' '--tp 3'; do
  for cases in build/release/test_models/reference build/release/onnx_cases/node; do
    find "$cases" -name model.onnx ! -path '*bernoulli_seed*' -printf '%h\n' | sort | xargs -n 100 build/release/bin/braid test --quiet --bind-shapes --rtol 1e-2 --atol 2e-2 $split
  done
done
# Splits of all of them under other names, in other orders and with Identity nodes.
scripts/python_run.sh tests/models/renamed.py --braid build/release/bin/braid --seeds 5 build/release/test_models/transformers/*[!0-9] build/release/test_models/architectures/*
# Every plain model that tests and examples make, split over 2 and 4 ranks; a sample on the emulated device.
for ranks in 2 4; do
  for model in build/release/test_models/transformers/*[!0-9] build/release/test_models/architectures/*; do
    build/release/bin/braid test --quiet --tp "$ranks" --rtol 1e-3 --atol 1e-4 "$model"
  done
  for model in build/release/test_models/decoders/*.onnx; do
    build/release/bin/braid verify "$model" --tp "$ranks" --dim batch=1..2 --dim sequence=1..4 --dim past=0..8
  done
  for model in build/release/test_models/transformers/{gpt2,llama}_decode; do
    CUDA_VISIBLE_DEVICES= build/release/bin/braid test --quiet --tp "$ranks" --target cuda --rtol 1e-4 --atol 1e-5 "$model"
  done
done
# ONNX's whole suite through its own runner and the Python package.
ctest --preset release --timeout 36000 -C deep -L slow </dev/null
# The GPU bundle, on the emulated device. The second call goes on with a build that took more than 10 minutes; what failed stays failed.
scripts/gpu_bundle.sh --small build/release/gpu_bundle
build/release/gpu_bundle/run_gpu_check.sh --emulated || build/release/gpu_bundle/run_gpu_check.sh --emulated
# The other major version of oneDNN.
scripts/onednn3_check.sh
# All rows of the table of which the fast tier compares some.
python3 bench/graphs/generate.py build/release/bench_graphs
python3 -B bench/check_tables.py --complete bench/overlap/TABLE.md -- bash -c 'bench="build/release/bin/overlap_bench --plugin build/release/lib/libbraid_rivals.so" && $bench build/release/bench_graphs --times /dev/null && $bench --small 1000'
export BRAID_RANDOM_SCALE=${BRAID_RANDOM_SCALE:-100}
exec ctest --preset release --timeout 36000 "$@" </dev/null
