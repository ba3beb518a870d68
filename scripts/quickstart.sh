#!/usr/bin/env bash
# From nothing to a transformer on two processes: sets everything up, writes a decoder of GPT-2 small's size with random
# weights as a plain model and split over two ranks, compiles it to C++, runs it and compares with the plain model.
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

# decoder NAME OPTIONS...: writes the model, plain and by rank, with one set of inputs and the plain model's outputs for
# them. Made again when the options or the scripts differ from the last time.
decoder() {
  local folder=$out/$1 stamp
  stamp="${*:2} $(cat examples/tensor_parallel/*.py | cksum)"
  if [ "$(cat "$folder/.made-with" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$folder"
    "$python" examples/tensor_parallel/make_decoder.py -o "$folder" --ranks "$ranks" --test-data 1 "${@:2}"
    echo "$stamp" >"$folder/.made-with"
  fi
  echo "$folder"
}

say "The models: 12 layers split over $ranks ranks, and a small one for the interpreter"
decoder gpt2
decoder small --layers 2 --hidden 64 --heads 4 --vocab 128 --max-positions 64

say "Compile the 12 layers to C++"
model="$out/gpt2/model.rank{rank}.onnx"
program=$out/gpt2-program
dims=(--dim batch=1..2 --dim sequence=1..256)
stamp="$(cat "$out/gpt2/.made-with") $(cat build/release/lib/libbraid.so build/release/lib/libbraid_runtime.a | cksum)"
if [ "$(cat "$program/.made-with" 2>/dev/null)" != "$stamp" ]; then
  "$braid" compile "$model" --ranks "$ranks" "${dims[@]}" -o "$program" --timing
  echo "$stamp" >"$program/.made-with"
else
  echo "$program is up to date"
fi

say "Run it on $ranks processes: error against the plain model, then latency"
"$braid" test "$out/gpt2" --program "$program" --ranks "$ranks"
for sequence in 128 1; do
  echo "batch 1, sequence $sequence:"
  "$braid" bench "$program" --dim batch=1 --dim "sequence=$sequence" --repeat 10
done

say "The small model beside the interpreter"
"$braid" verify "$out/small/model.rank{rank}.onnx" --ranks "$ranks" --dim batch=1..2 --dim sequence=1..16

say "What was planned for the 12 layers"
"$braid" explain "$model" --ranks "$ranks" "${dims[@]}" >"$out/explain.txt"
sed -n '/^Operations as lowered/,/communication steps$/p; /^Memory per rank/,$p' "$out/explain.txt"
echo
echo "All of it, with the collectives: $out/explain.txt"
echo "The generated source: $program/model.cc (entry: model.h, weights beside it)"
