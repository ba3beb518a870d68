#!/usr/bin/env bash
# Measures everything that bench/ measures and writes the tables as printed: RESULTS.md in each folder, and
# overlap/TABLE.md, which is equal on every machine.
#   bench/run.sh [BUILD_DIR] [auto_parallel|busy|onnxruntime|networks|operators|memory|collectives|comm_plan|compile|overlap|overlap_table|paced|pairs|pipeline|precision|published|python|search|tensor_parallel]...
# BUILD_DIR (default build/release) holds a Release build. Run it on an idle machine: each table begins with the load.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/release
if [[ $# -gt 0 && -x $1/bin/braid ]]; then build=$1; shift; fi
[[ $# -gt 0 ]] || set -- onnxruntime busy networks operators memory collectives comm_plan compile overlap overlap_table paced pairs pipeline precision published python search tensor_parallel
braid=$build/bin/braid
rivals=$build/lib/libbraid_rivals.so
[[ -x $braid ]] || { echo "bench/run.sh: no $braid; build first, or name the build folder" >&2; exit 1; }

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
header() {
  echo "$1"
  echo
  echo "$processor, $(nproc) processors; load average $(cut -d' ' -f1-3 /proc/loadavg) when it began; commit $(git rev-parse --short HEAD)."
  echo
}
# The table takes the old one's place when it is complete.
write() {
  local file=$1
  shift
  "$@" | tee "$file.part"
  mv "$file.part" "$file"
}

onnxruntime() {
  header "# Transformers beside ONNX Runtime"
  scripts/python_run.sh bench/onnxruntime/compare.py --braid "$braid"
}

busy() {
  header "# Transformers beside ONNX Runtime and a busy process"
  scripts/python_run.sh bench/onnxruntime/compare.py --braid "$braid" --neighbour 0.5
}

networks() {
  header "# Vision and recurrent networks beside ONNX Runtime"
  scripts/python_run.sh bench/onnxruntime/networks.py --braid "$braid"
}

operators() {
  header "# Operators beside ONNX Runtime"
  scripts/python_run.sh bench/operators/operators.py --braid "$braid"
}

published() {
  header "# Published files beside ONNX Runtime"
  scripts/python_run.sh bench/published/published.py --braid "$braid"
}

precision() {
  header "# Narrow types and quantised files"
  scripts/python_run.sh bench/precision/precision.py --braid "$braid"
}

memory() {
  header "# Peak memory beside ONNX Runtime"
  scripts/python_run.sh bench/onnxruntime/memory.py --braid "$braid"
}

python() {
  header "# What a step costs through Python"
  cmake --build "$build" --target abi_step braid_python >&2
  PYTHONPATH=$build/python scripts/python_run.sh bench/python/run_overhead.py "$build/bin/abi_step"
}

# The problems are not part of Braid: BRAID_IOPDDL names the folder that holds them (github.com/google/iopddl), as NAME.json.gz.
auto_parallel() {
  header "# Published auto-sharding problems"
  [[ -n ${BRAID_IOPDDL:-} ]] || { echo "bench/run.sh: set BRAID_IOPDDL to the folder of the problems" >&2; exit 1; }
  cmake --build "$build" --target auto_parallel_bench >&2
  local work=$build/bench_auto_parallel file
  mkdir -p "$work"
  for file in "$BRAID_IOPDDL"/*.json.gz; do gzip -dc "$file" >"$work/$(basename "$file" .gz)"; done
  echo "One thread. A budget of four billion table cells, which counts instead of time."
  echo
  "$build/bin/auto_parallel_bench" --budget 4000000000 "$work"/*.json
}

search() {
  header "# What choosing a split takes"
  cmake --build "$build" --target auto_parallel_bench >&2
  scripts/python_run.sh bench/auto_parallel/search_time.py --braid "$braid" --bench "$build/bin/auto_parallel_bench" --work "$build/bench_search"
}

# Simulated: on any machine, busy or not.
pairs() {
  header "# Chosen splits beside those by hand"
  scripts/python_run.sh bench/auto_parallel/pairs.py --braid "$braid"
}

collectives() {
  header "# Collectives beside Open MPI"
  cmake --build "$build" --target collectives_bench >&2
  mpirun -n 2 ${BENCH_MPIRUN_FLAGS:-} "$build/bin/collectives_bench"
}

comm_plan() {
  header "# Memory plans of 1,000 collectives"
  cmake --build "$build" --target comm_plan_bench >&2
  "$build/bin/comm_plan_bench"
}

# Processor time of a stage is what --timing prints, on an idle machine.
compile() {
  header "# Compile time"
  local work=$build/bench_compile row
  mkdir -p "$work"
  echo "GPT-2 small, ONNX to source (with the weights' file), best of three; the host compiler's time apart:"
  echo
  local dims
  for graph in prefill decode; do
    dims="batch=1 --dim sequence=1..1024"
    [[ $graph == prefill ]] || dims="batch=1 --dim past_sequence=1..1023"
    [[ -f $work/$graph.onnx ]] || scripts/python_run.sh examples/tensor_parallel/make_decoder.py -o "$work" --name $graph --graph $graph >&2
    for _ in 1 2 3; do
      "$braid" compile "$work/$graph.onnx" -o "$work/$graph" --dim $dims --emit source --timing 2>&1 >/dev/null |
        awk '/^lower/ { sub(/, host compiler.*/, ""); printf "%d ms: %s\n", $2 + $5 + $8, $0; ok = 1 } END { exit !ok }'
    done | sort -n | head -1 | sed "s/^/* $graph: /"
  done
  echo
  echo "Equal layers of 8 operations through the default passes, verified after each (bench/compile/repeated_layers.py):"
  echo
  echo "| operations | ranks | seconds of processor time | us per operation |"
  echo "|---|---|---|---|"
  local passes
  passes=dead_code,forward_copies,forward_parts,fuse_epilogues,fuse_vertical,fuse_horizontal,raise_outputs,merge_loops,sink_releases,plan_memory
  for ranks in 1 2; do
    for layers in 125 1250 12500; do
      python3 bench/compile/repeated_layers.py $layers --ranks $ranks > "$work/layers.braid"
      TIMEFORMAT=%U
      row=$( { time "$braid" opt "$work/layers.braid" --passes $passes -o "$work/layers.out" 2>/dev/null; } 2>&1)
      awk -v n=$((layers * (ranks > 1 ? 10 : 8))) -v r=$ranks -v s="$row" 'BEGIN { printf "| %d | %d | %.2f | %.0f |\n", n, r, s, s / n * 1e6 }'
    done
  done
  echo
  echo "From a file to a library, and a large model to its source, medians of 3 (bench/compile/whole_models.py):"
  echo
  scripts/python_run.sh bench/compile/whole_models.py --braid "$braid" --work "$work"
}

# Tests compare it with what they compute (bench/check_tables.py), so nothing in it may differ from run to run.
overlap_table() {
  local corpus=$build/bench_graphs
  cmake --build "$build" --target overlap_bench >&2
  python3 bench/graphs/generate.py "$corpus"
  echo "# Schedulers beside each other"
  echo
  echo "Simulated, so equal on every machine: \`bench/run.sh overlap_table\` writes this page, tests compare it. RESULTS.md has the seconds."
  echo
  "$build/bin/overlap_bench" --plugin "$rivals" "$corpus" --times /dev/null
  "$build/bin/overlap_bench" --plugin "$rivals" --small "${BENCH_SMALL_GRAPHS:-1000}"
}

overlap() {
  header "# What scheduling takes"
  local corpus=$build/bench_graphs
  cmake --build "$build" --target overlap_bench >&2
  python3 bench/graphs/generate.py "$corpus" --large
  "$build/bin/overlap_bench" --plugin "$rivals" "$corpus" --times "$corpus/times.md" >/dev/null
  echo "Seconds:"
  echo
  cat "$corpus/times.md"
  echo
  echo "Large graphs:"
  echo
  "$build/bin/overlap_bench" --plugin "$rivals" "$corpus" --large --times "$corpus/times.md"
  cat "$corpus/times.md"
}

# What the passes promise, and what happens over a link that takes its time.
paced() {
  header "# Measured beside simulated, over a paced link"
  scripts/python_run.sh bench/paced/paced.py --braid "$braid" --work "$build/bench_paced"
}

pipeline() {
  header "# Pipeline schedules: how long the compiler takes"
  cmake --build "$build" --target pipeline_speed_bench >&2
  "$build/bin/pipeline_speed_bench" --large
}

tensor_parallel() {
  header "# GPT-2 small on two ranks"
  cmake --build "$build" --target read_bandwidth >&2
  scripts/python_run.sh bench/tensor_parallel/tensor_parallel.py --braid "$braid" --work "$build/bench_tensor_parallel" \
    --read-bandwidth "$build/bin/read_bandwidth"
}

for what in "$@"; do
  case $what in
    overlap_table) write bench/overlap/TABLE.md overlap_table ;;
    busy) write bench/onnxruntime/BUSY.md busy ;;
    networks) write bench/onnxruntime/NETWORKS.md networks ;;
    memory) write bench/onnxruntime/MEMORY.md memory ;;
    pairs) write bench/auto_parallel/PAIRS.md pairs ;;
    search) write bench/auto_parallel/SEARCH.md search ;;
    auto_parallel | onnxruntime | operators | collectives | comm_plan | compile | overlap | paced | pipeline | precision | published | python | tensor_parallel) write "bench/$what/RESULTS.md" "$what" ;;
    *) echo "bench/run.sh: unknown benchmark '$what'" >&2; exit 1 ;;
  esac
done
