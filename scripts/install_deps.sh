#!/usr/bin/env bash
# Installs the Debian packages that Braid is built and tested with; does nothing when all are there.
# Without the right to install it says what to run and fails. Extra package names may follow as arguments.
set -euo pipefail
packages=(
  ca-certificates ccache cmake g++ git mold ninja-build util-linux
  python3 python3-dev python3-pip python3-venv
  libbenchmark-dev libcli11-dev libdnnl-dev libfmt-dev libgmock-dev libgtest-dev libprotobuf-dev libzip-dev nlohmann-json3-dev
  protobuf-compiler
  libopenmpi-dev openmpi-bin
  "$@"
)
if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: no Debian system; these packages' equivalents are needed: ${packages[*]}" >&2
  exit 0
fi
installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep --quiet --line-regexp --fixed-strings "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
  sudo=()
elif command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; then
  sudo=(sudo --non-interactive)
else
  {
    echo "install_deps.sh: Debian packages are missing and only root may install them. Run:"
    echo "  apt-get install --no-install-recommends ${missing[*]}"
  } >&2
  exit 1
fi
install() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" </dev/null >&2
}
echo "install_deps.sh: installing ${missing[*]}" >&2
# The package lists of a fresh machine are empty or old: fetch them only when the first try fails.
install || { "${sudo[@]}" apt-get update -qq </dev/null >&2 && install; }
