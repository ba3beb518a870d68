#!/usr/bin/env bash
# From nothing to a transformer on two processes: sets everything up, writes a GPT-2-small-sized decoder with random
# weights as a plain model and split over two ranks, compiles it to C++, runs it and compares.
# BRAID_QUICKSTART_DIR moves the output (default: out/quickstart). Costs little when run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${BRAID_QUICKSTART_DIR:-out/quickstart}
ranks=2
say() { printf '\n== %s\n' "$*"; }

say "Set-up"
scripts/install_deps.sh
scripts/fetch_onnx.sh >/dev/null
python=$(scripts/python_env.sh)
cmake --preset release --log-level=WARNING
cmake --build --preset release --target braid braid_runtime
braid=$PWD/build/release/bin/braid

# decoder NAME OPTIONS...: writes the model once, with one set of inputs and the plain model's outputs for them.
decoder() {
  local folder=$out/$1 stamp="${*:2}"
  if [ "$(cat "$folder/.options" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$folder"
    "$python" examples/tensor_parallel/make_decoder.py -o "$folder" "${@:2}"
    echo "$stamp" >"$folder/.options"
  fi
}

say "The models: 12 layers split over $ranks ranks, and a small one for the interpreter"
decoder gpt2 --ranks "$ranks" --test-data 1
decoder small --ranks "$ranks" --test-data 1 --layers 2 --hidden 64 --heads 4 --vocab 128 --max-positions 64

say "Compile to C++"
dims=(--dim batch=1..8 --dim sequence=1..1024)
"$braid" compile "$out/gpt2/model.rank{rank}.onnx" --ranks "$ranks" "${dims[@]}" -o "$out/gpt2-program"

say "Run on $ranks processes and compare with the plain model"
"$braid" test "$out/gpt2" --ranks "$ranks"
"$braid" run "$out/gpt2-program" --ranks "$ranks" --random 1 --repeat 5

say "The small model beside the interpreter"
"$braid" verify "$out/small/model.rank{rank}.onnx" --ranks "$ranks"

say "What was planned"
"$braid" explain "$out/gpt2-program"
echo
echo "The generated source lies in $out/gpt2-program"
