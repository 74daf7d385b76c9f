#!/bin/sh
# Makes the release twice, from two clones in different folders, and compares every file byte for byte. Needs what make release needs.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for n in one second/two; do
  mkdir -p "$work/$n"
  git clone -q --no-local "$here" "$work/$n"
  git -C "$work/$n" checkout -q "$(git -C "$here" rev-parse HEAD)"
  (cd "$work/$n" && make -s release >"$work/log" 2>&1) || { cat "$work/log"; exit 1; }
  (cd "$work/$n/dist" && sha256sum ./*.tar.gz ./*.deb ./*.rpm ./*.sbom.json ./SHA256SUMS ./*.tar) >"$work/$(basename "$n").sums"
done
if ! diff "$work/one.sums" "$work/two.sums"; then
  echo "reproducible: two builds of $(git -C "$here" rev-parse --short HEAD) differ" >&2
  exit 1
fi
cat "$work/one.sums"
echo "reproducible: two builds are the same"
