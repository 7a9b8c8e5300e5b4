#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: fuzz.sh 10m
set -euo pipefail
cd "$(dirname "$0")/../.."
grep -rEl '^func Fuzz' --include='*_test.go' . | while read -r file; do
  dir=$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/func //' | while read -r target; do
    echo "fuzz: $dir $target for $1"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir"
  done
done
