#!/usr/bin/env bash
# Makes the Python environment of the project's scripts and prints the path of its python, alone on standard output:
#   "$(scripts/python_env.sh)" examples/tensor_parallel/make_decoder.py --help
# Does nothing when the environment has what scripts/requirements.txt pins. BRAID_VENV moves it (default: .venv in the tree).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements=$root/scripts/requirements.txt
venv=${BRAID_VENV:-$root/.venv}
python=$venv/bin/python

# The stamp holds the requirements that were installed; a changed pin or a missing python installs again.
if ! [ -x "$python" ] || ! cmp --silent "$requirements" "$venv/.installed-requirements"; then
  # Two scripts may ask at once (a parallel test run): one installs, the other waits.
  mkdir -p "$venv"
  exec 9>"$venv/.lock"
  flock 9
  if ! [ -x "$python" ] || ! cmp --silent "$requirements" "$venv/.installed-requirements"; then
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
      echo "python_env.sh: python3 cannot make environments; install the Debian package python3-venv" >&2
      exit 1
    fi
    python3 -m venv "$venv" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" >&2
    cp "$requirements" "$venv/.installed-requirements"
  fi
fi
echo "$python"
