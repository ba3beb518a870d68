#!/usr/bin/env bash
# Names every tracked C++ or CUDA file that clang-format 14 would change, and every comment that breaks the rules of docs/style.md.
# With --fix it formats the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$formatter" ]; then
  echo "format_check.sh: clang-format is missing; run: scripts/install_deps.sh clang-format-14" >&2
  exit 1
fi
version=$("$formatter" --version)
if [[ $version != *"version 14."* ]]; then
  # Versions differ in details; only one can be the judge.
  echo "format_check.sh: need clang-format 14, found: $version" >&2
  exit 1
fi
mapfile -t files < <(git ls-files -- '*.cc' '*.h' '*.cu' '*.cuh')
[ ${#files[@]} -gt 0 ] || exit 0
if [ "${1:-}" = --fix ]; then
  exec "$formatter" -i "${files[@]}"
fi
bad=()
for file in "${files[@]}"; do
  "$formatter" "$file" | cmp --silent - "$file" || bad+=("$file")
done
if [ ${#bad[@]} -gt 0 ]; then
  printf 'not formatted: %s\n' "${bad[@]}"
  echo "fix: scripts/format_check.sh --fix"
  exit 1
fi
exec scripts/check_comments.py
