#!/usr/bin/env bash
# Makes a GPU bundle: a folder, and OUT.tar.gz, with everything that Braid's CUDA programs need to be checked and timed on a machine
# with a GPU, nvcc, CMake and Python with PyTorch, and without Braid, a network or models' files.
#   scripts/gpu_bundle.sh [--small|--sample] [OUT]  default: out/gpu_bundle; --small without the large models, --sample with a few
#                                                  programs of each kind only, without Python packages
#   scripts/gpu_bundle.sh --results OUT            writes bench/gpu/RESULTS.md with the results in OUT/results
# On the GPU machine: cmake -S . -B build && cmake --build build -j, or just ./run_gpu_check.sh, which builds and runs rows.
# BRAID_BUILD names the build folder with bin/emit_bundle (default: build/release, which is built if need be).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
limit=$((48 << 20))
small=false sample=() report=false
while [[ ${1:-} == --* ]]; do
  case $1 in
    --small) small=true ;;
    --sample) sample=(opcodes_f16 indexing softmax_large_row gemm_bias_gelu_bf16 layers_2 transfer peers_2_any_size_two_shot
                      recurrence_lengths extern_views kernel_softmax_f16) ;;
    --results) report=true ;;
    *) sed -n '2,/^set/{/^#/p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
out=${1:-out/gpu_bundle}
if $report; then
  python3 -B bench/gpu/gpu_check.py --report --cases "$out/cases.txt" --results "$out/results" >bench/gpu/RESULTS.md.part
  mv bench/gpu/RESULTS.md.part bench/gpu/RESULTS.md
  exit
fi

build=${BRAID_BUILD:-build/release}
if [[ ! -x $build/bin/emit_bundle ]]; then
  cmake --preset release --log-level=WARNING >/dev/null
  cmake --build --preset release --target emit_bundle
fi
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT

# model NAME FILE RANKS BOUNDS CHECKED [TIMED]: a line of what emit_bundle reads.
model() { echo "$1 | $2 | $3 | $4 | $5 | ${6:-}" >>"$models/models.txt"; }
decoder() { "$python" examples/tensor_parallel/make_decoder.py -o "$models/$1" "${@:2}" >/dev/null; }
# narrowed NAME FILE ...: the model as f32, f16 and bf16, named NAME_f32, ...
narrowed() {
  model "$1_f32" "$2" "${@:3}"
  for type in float16:f16 bfloat16:bf16; do
    "$python" bench/gpu/narrow_model.py "$2" "$models/$1_${type#*:}/model.onnx" "${type%:*}"
    model "$1_${type#*:}" "$models/$1_${type#*:}/model.onnx" "${@:3}"
  done
}

model app_layer examples/app/layer.onnx 1 "batch=1..8" "batch=3"
model app_sum examples/app/sum.onnx 2 "batch=1..8" "batch=3"
model plugin_scores examples/plugin/scores.onnx 1 "rows=1..8" "rows=5"
if ((${#sample[@]} == 0)); then
  python=$(scripts/python_env.sh)
  tiny=(--layers 2 --hidden 64 --heads 4 --vocab 128 --max-positions 64)
  bounds="batch=1..2, sequence=1..16" sizes="batch=2,sequence=7"
  for style in gpt2 bert; do
    decoder tiny_$style --style $style "${tiny[@]}"
    narrowed tiny_$style "$models/tiny_$style/model.onnx" 1 "$bounds" "$sizes"
  done
  decoder tiny_llama --style llama "${tiny[@]}" --kv-heads 2
  narrowed tiny_llama "$models/tiny_llama/model.onnx" 1 "$bounds" "$sizes"
  decoder tiny_decode --graph decode "${tiny[@]}"
  model tiny_decode_f32 "$models/tiny_decode/model.onnx" 1 "batch=1..2, past_sequence=1..16" "batch=2,past_sequence=7"
  decoder tiny_two_ranks --ranks 2 "${tiny[@]}"
  model tiny_two_ranks_f32 "$models/tiny_two_ranks/model.rank{rank}.onnx" 2 "$bounds" "$sizes"
  for network in resnet50 vit_base mobilenet_v3 unet; do
    "$python" tests/models/networks.py --small $network "$models/tiny_$network.onnx"
  done
  narrowed tiny_resnet50 "$models/tiny_resnet50.onnx" 1 "batch=1..2" "batch=2"
  narrowed tiny_vit "$models/tiny_vit_base.onnx" 1 "batch=1..2" "batch=2"
  model tiny_mobilenet "$models/tiny_mobilenet_v3.onnx" 1 "batch=1..2" "batch=2"
  model tiny_unet "$models/tiny_unet.onnx" 1 "batch=1..2" "batch=1"
fi
if ! $small && ((${#sample[@]} == 0)); then
  decoder gpt2
  narrowed gpt2 "$models/gpt2/model.onnx" 1 "batch=1..8, sequence=1..1024" "batch=1,sequence=2" "batch=1,sequence=128; batch=1,sequence=1024; batch=8,sequence=128"
  decoder bert --style bert
  narrowed bert "$models/bert/model.onnx" 1 "batch=1..32, sequence=1..512" "batch=1,sequence=2" "batch=1,sequence=128; batch=32,sequence=128"
  "$python" tests/models/networks.py vit_base "$models/vit_base.onnx"
  narrowed vit "$models/vit_base.onnx" 1 "batch=1..8" "" "batch=1; batch=8"
  "$python" tests/models/networks.py resnet50 "$models/resnet50.onnx"
  narrowed resnet50 "$models/resnet50.onnx" 1 "batch=1..8" "" "batch=1; batch=8"
fi

rm -rf "$out.part"
mkdir -p "$out.part/harness"
"$build/bin/emit_bundle" "$out.part" "$models/models.txt" "${sample[@]}"
cp bench/gpu/*.{h,cc,cu,py} "$out.part/harness/"
cp bench/gpu/bundle.cmake "$out.part/CMakeLists.txt"
cp bench/gpu/run_gpu_check.sh bench/gpu/README.md LICENSE "$out.part/"
bytes=$(du --apparent-size --summarize --bytes "$out.part" | cut -f1)
if ((bytes >= limit)); then
  echo "gpu_bundle.sh: the bundle has $bytes bytes, $limit is the limit" >&2
  exit 1
fi
# Results stay: rows that are still of these programs are not run again.
[[ ! -d $out/results ]] || mv "$out/results" "$out.part/results"
rm -rf "$out"
mv "$out.part" "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --exclude=results -C "$(dirname "$out")" -cf - "$(basename "$out")" | gzip -n >"$out.tar.gz"
echo "$out: $bytes bytes, $(grep -c '^case ' "$out/cases.txt") cases; $out.tar.gz: $(stat -c %s "$out.tar.gz") bytes"
