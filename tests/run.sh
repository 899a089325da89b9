#!/usr/bin/env bash
# Runs everything on a fresh Debian 12 or 13: installs what is missing, builds, runs every test and, for
# 10 seconds each, every fuzz target.
#   bash tests/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source apps/common.sh

ng_install "${ng_build_packages[@]}" "${ng_test_packages[@]}"
start=$SECONDS
ng_build release -DNG_BUILD_TESTS=ON -DNG_PYTHON_MODULE=REQUIRED
built=$((SECONDS - start))

failed=()
start=$SECONDS
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" | tee build/ctest.log ||
  failed+=(ctest)

ng_install "${ng_sanitizer_packages[@]}"
ng_build asan --target ng_fuzz_targets
bash tests/fuzz/run.sh 10 | tee build-asan/fuzz.log || failed+=("fuzz targets")

echo
echo "Built in $built s, tested in $((SECONDS - start)) s:"
grep 'tests passed' build/ctest.log || true
cat build-asan/fuzz.log
if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "All passed"
