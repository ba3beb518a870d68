#!/usr/bin/env bash
# Makes an environment with the libraries of bench/trees/requirements.txt and 30 models, compares them with ONNX Runtime and
# writes bench/trees/RESULTS.md:
#   bench/trees/run.sh [BUILD_DIR] [compare.py's options]
# BUILD_DIR (default build/release) holds a Release build with the Python package. BRAID_TREES moves environment and models.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/release
if [[ $# -gt 0 && -d $1/python ]]; then build=$1; shift; fi
work=${BRAID_TREES:-$build/trees}
venv=$work/venv
mkdir -p "$work"
if ! cat scripts/requirements.txt bench/trees/requirements.txt | cmp --silent - "$venv/.installed-requirements"; then
  rm -rf "$venv" "$work/models"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt -r bench/trees/requirements.txt ||
    { echo "bench/trees/run.sh: skipped, its libraries cannot be installed" >&2; exit 0; }
  cat scripts/requirements.txt bench/trees/requirements.txt > "$venv/.installed-requirements"
fi
[[ -d $work/models ]] || "$venv/bin/python" -W ignore bench/trees/make_models.py "$work/models"
{
  echo "# Trees and other classical models beside ONNX Runtime"
  echo
  echo "\`bench/trees/run.sh\`: models of scikit-learn, LightGBM and XGBoost as their converters write them (\`make_models.py\`)."
  echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors; load average" \
    "$(cut -d' ' -f1-3 /proc/loadavg) when it began; commit $(git rev-parse --short HEAD)."
  echo
  PYTHONPATH=$build/python "$venv/bin/python" bench/trees/compare.py "$work/models" "$@"
} | tee bench/trees/RESULTS.md.part
mv bench/trees/RESULTS.md.part bench/trees/RESULTS.md
