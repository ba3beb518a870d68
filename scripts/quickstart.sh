#!/usr/bin/env bash
# From nothing to a transformer on two processes: sets everything up, writes a decoder of GPT-2 small's size with random
# weights as one plain model, lets Braid split it over two ranks, compiles it to C++, runs it and compares it with the plain
# model. The same decoder on one rank, and split by hand, are timed beside it.
# BRAID_QUICKSTART_DIR moves the output (default: out/quickstart). What is up to date is not made again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${BRAID_QUICKSTART_DIR:-out/quickstart}
ranks=2
say() { printf '\n== %s\n' "$*"; }

say "Set-up and build"
scripts/install_deps.sh
scripts/fetch_onnx.sh >/dev/null
python=$(scripts/python_env.sh)
# Only what is needed here: scripts/test.sh builds the tests in the same folder.
cmake --preset release --log-level=WARNING >/dev/null
cmake --build --preset release --target braid braid_runtime braid_emulated_device
braid=$PWD/build/release/bin/braid

# decoder NAME RANKS OPTIONS...: writes the model, plain for one rank and else by rank, with one set of inputs and the plain model's
# outputs for them. Made again when the options or the scripts differ from the last time.
decoder() {
  local folder=$out/$1 stamp
  stamp="${*:2} $(cat examples/tensor_parallel/*.py | cksum)"
  if [ "$(cat "$folder/.made-with" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$folder"
    "$python" examples/tensor_parallel/make_decoder.py -o "$folder" --ranks "$2" --test-data 1 "${@:3}"
    echo "$stamp" >"$folder/.made-with"
  fi
}

say "The models: 12 layers, plain and split over $ranks ranks by hand, and small ones for the interpreter"
decoder gpt2 1
decoder gpt2-by-hand "$ranks"
small=(--layers 2 --hidden 64 --heads 4 --vocab 128 --max-positions 64)
decoder small 1 "${small[@]}"
decoder small-by-hand "$ranks" "${small[@]}"

dims=(--dim batch=1..2 --dim sequence=1..256)
# program NAME MODEL OPTIONS...: compiles the model to C++.
program() {
  local folder=$out/$1 stamp
  stamp="$(cat "$out/gpt2/.made-with") ${*:2} $(cat build/release/lib/libbraid.so build/release/lib/libbraid_runtime.a | cksum)"
  if [ "$(cat "$folder/.made-with" 2>/dev/null)" != "$stamp" ]; then
    "$braid" compile "${@:2}" "${dims[@]}" -o "$folder" --timing
    echo "$stamp" >"$folder/.made-with"
  else
    echo "$folder is up to date"
  fi
}

say "Compile the plain model for $ranks devices: Braid chooses the split"
program split "$out/gpt2/model.onnx" --devices "$ranks"

say "Run it on $ranks processes: error against the plain model, then latency"
"$braid" test "$out/gpt2" --devices "$ranks" "${dims[@]}"
for sequence in 128 1; do
  echo "batch 1, sequence $sequence:"
  "$braid" bench "$out/split" --dim batch=1 --dim "sequence=$sequence" --repeat 10
done

say "For comparison: on one rank, and split by hand"
program whole "$out/gpt2/model.onnx"
program by-hand "$out/gpt2-by-hand/model.rank{rank}.onnx" --ranks "$ranks"
for name in whole by-hand; do
  echo "$name, batch 1, sequence 128:"
  "$braid" bench "$out/$name" --dim batch=1 --dim sequence=128 --repeat 10
done

say "A small model beside the interpreter: split by Braid, then by hand"
dims=(--dim batch=1..2 --dim sequence=1..16)
"$braid" verify "$out/small/model.onnx" --tp "$ranks" "${dims[@]}"
"$braid" verify "$out/small-by-hand/model.rank{rank}.onnx" --ranks "$ranks" "${dims[@]}"

say "How the 12 layers are split, and what was planned for them"
dims=(--dim batch=1..2 --dim sequence=1..256)
"$braid" explain "$out/gpt2/model.onnx" --devices "$ranks" "${dims[@]}" >"$out/explain.txt"
sed -n '/^Splits that/,/^$/p; /^Layers/,/^$/p; /^Operations as lowered/,/communication steps$/p; /^Memory per rank/,$p' "$out/explain.txt"
echo
echo "All of it, with the collectives: $out/explain.txt"
echo "The generated source: $out/split/model.cc (entry: model.h, weights beside it)"
