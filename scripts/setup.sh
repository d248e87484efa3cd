#!/usr/bin/env bash
# What demo.sh and test.sh share: installs the packages that are missing, and builds a preset of CMakePresets.json.
# Run on its own it only installs. Every stage prints one line; its output goes to build/logs/, and the end of that to
# the screen if the stage fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build pkg-config libopenblas-dev liblapacke-dev librandom123-dev libcli11-dev
  nlohmann-json3-dev libfmt-dev libsentencepiece-dev libgtest-dev libbenchmark-dev python3)

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() {
  say "$*" >&2
  exit 1
}

# stage LOG WHAT COMMAND..: says what it does (and, after a colon, details) and does it.
stage() {
  local log=build/logs/$1.log what=$2
  shift 2
  say "$what"
  mkdir -p build/logs || die "cannot write to $PWD/build"
  "$@" >"$log" 2>&1 </dev/null && return
  tail -n 20 "$log" >&2
  what=${what%%:*}
  grep -qE 'Temporary failure resolving|Could not (resolve|connect)|unreachable' "$log" && what+=' (no network?)'
  die "failed: $what; the whole log: $PWD/$log"
}

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Asks nothing. An update may fail: the old lists may be good enough, or only a source that we do not need be down.
apt_install() {
  local apt=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -o Acquire::Retries=2)
  [[ $EUID == 0 ]] || apt=(sudo "${apt[@]}")
  "${apt[@]}" update || true
  "${apt[@]}" install --no-install-recommends "$@"
}

install_packages() {
  local missing=() p
  if [[ -z $(type -P apt-get) || -z $(type -P dpkg-query) ]]; then
    say "no apt-get here: trying with what is installed. Needed, by their Debian names: ${packages[*]}"
    return
  fi
  for p in "${packages[@]}"; do is_installed "$p" || missing+=("$p"); done
  ((${#missing[@]})) || return 0
  [[ $EUID == 0 || -n $(type -P sudo) ]] ||
    die "packages are missing and there is no sudo; as root, run: apt-get install --no-install-recommends ${missing[*]}"
  stage apt "installing ${#missing[@]} packages: ${missing[*]}" apt_install "${missing[@]}"
}

# build PRESET [TARGET..]
build() {
  local preset=$1
  shift
  stage "configure-$preset" "configuring build/$preset" cmake --preset "$preset"
  stage "build-$preset" "building build/$preset: minutes the first time, then only what changed" \
    cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || install_packages
