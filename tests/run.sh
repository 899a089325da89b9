#!/usr/bin/env bash
# Runs everything on a fresh Debian 12: installs what is missing, builds, runs every test and, for
# 30 seconds each, every fuzz target.
#   bash tests/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source apps/common.sh

ng_install "${ng_build_packages[@]}" "${ng_test_packages[@]}"
start=$SECONDS
ng_build release -DNG_BUILD_TESTS=ON
built=$((SECONDS - start))

failed=()
start=$SECONDS
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" | tee build/ctest.log ||
  failed+=(ctest)

n_fuzzers=0
if [ -d tests/fuzz ]; then
  ng_install clang
  ng_build fuzz
  for fuzzer in build-fuzz/bin/fuzz_*; do
    echo "== $fuzzer"
    "$fuzzer" -max_total_time=30 -verbosity=0 || failed+=("$fuzzer")
    n_fuzzers=$((n_fuzzers + 1))
  done
fi

echo
echo "Built in $built s, tested in $((SECONDS - start)) s:"
grep 'tests passed' build/ctest.log || true
echo "$n_fuzzers fuzz targets run"
if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "All passed"
