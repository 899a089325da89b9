#!/usr/bin/env bash
# Builds the parts and the example project against an installed ng and runs them, then moves the
# installation elsewhere and runs the example again.
#   tests/sdk/run.sh PREFIX BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -eq 2 ] || { echo "usage: tests/sdk/run.sh PREFIX BUILD_DIR" >&2; exit 2; }
prefix=$(realpath "$1")
mkdir -p "$2"
build=$(realpath "$2")
config=$here/../../configs/demo.ini
message="Who art thou?"
plugins=$build/plugins

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# run_ng OPTION...: the answer of ng-run as a line of JSON.
run_ng() {
  "$prefix/bin/ng-run" --config "$config" --plugins.path="$plugins" --message "$message" \
    --output jsonl "$@" 2>"$build/stderr" || fail "ng-run $*: $(cat "$build/stderr")"
}

# list_of KEY: the integers of an array in a line of JSON, separated by blanks.
list_of() { grep -o "\"$1\":\[[0-9,]*\]" | sed 's/.*\[//; s/\]//; s/,/ /g'; }

# Whether no pair of neighbours that ends behind the first $1 ids has occurred before.
no_pair_twice() {
  awk -v n="$1" '{
    for (i = 2; i <= NF; i++) {
      pair = $(i - 1) " " $i
      if (i > n && pair in seen) exit 1
      seen[pair] = 1
    }
  }'
}

check_attention() {
  local ours reference
  reference=$(run_ng --attention.name=reference --sampler.chain=greedy | list_of ids)
  ours=$(run_ng --attention.name=one_pass --sampler.chain=greedy | list_of ids)
  [ -n "$ours" ] || fail "no ids"
  [ "$ours" = "$reference" ] || fail "one_pass gave $ours, reference gave $reference"
  echo "ok: one_pass and reference give the same ids"
}

# Without a stop token, so that plain greedy does go in circles and the test can fail.
check_sampler() {
  local plain broken n_prompt
  plain=$(run_ng --sampler.chain=greedy --run.stop_ids=)
  broken=$(run_ng --sampler.chain=cycle_breaker,greedy --sampler.cycle_breaker.run_length=2 \
    --run.stop_ids=)
  n_prompt=$(list_of prompt_ids <<<"$broken" | wc -w)
  ! list_of ids <<<"$plain" | no_pair_twice "$n_prompt" || fail "greedy alone repeats no pair"
  list_of ids <<<"$broken" | no_pair_twice "$n_prompt" || fail "cycle_breaker let a pair repeat"
  echo "ok: cycle_breaker breaks cycles"
}

# A probe that looks changes no id, and says what it saw.
check_probe() {
  local plain probed
  plain=$(run_ng --sampler.chain=greedy | list_of ids)
  probed=$(run_ng --sampler.chain=greedy --probe.chain=rms --probe.rms.points=layer1.out | list_of ids)
  [ "$plain" = "$probed" ] || fail "rms changed the ids"
  grep -q "probe rms: rms layer1.out [0-9]" "$build/stderr" || fail "rms says: $(cat "$build/stderr")"
  echo "ok: rms looks and changes nothing"
}

# A policy of one's own decides what the cache with a budget keeps, however the text is fed.
check_policy() {
  local budget whole single
  budget=(--sampler.chain=greedy --run.stop_ids= --run.max_new_tokens=60 --cache.name=budget
    --cache.budget.policy=long_keys --cache.budget.tokens=16 --cache.budget.sinks=2
    --cache.budget.recent=4 --cache.budget.every=8)
  whole=$(run_ng "${budget[@]}" | list_of ids)
  grep -q "policy long_keys let [0-9]* tokens go" "$build/stderr" || fail "budget says: $(cat "$build/stderr")"
  single=$(run_ng "${budget[@]}" --run.prefill_chunk=1 | list_of ids)
  [ "$whole" = "$single" ] || fail "long_keys gave $whole, and token by token $single"
  echo "ok: long_keys says what the cache keeps"
}

# The library is named to the loader because the program was linked to the prefix's first place.
check_program() {
  local ours expected
  expected=$(run_ng | list_of ids)
  ours=$(LD_LIBRARY_PATH=$prefix/lib "$build/ng_example" "$config" "$message" 2>"$build/stderr") ||
    fail "ng_example: $(cat "$build/stderr")"
  [ "$(tail -n 1 <<<"$ours")" = "ids $expected" ] || fail "ng_example printed: $ours"
  echo "ok: the embedding program and ng-run give the same ids"
}

# conforms KIND_NAME OPTION...: the plugin does what ng asks of its kind.
conforms() {
  local name=$1
  shift
  "$prefix/bin/ng-conform" "$plugins/ng_$name.so" --quick "$@" >"$build/conform" 2>"$build/stderr" ||
    fail "ng-conform $name $*: $(cat "$build/conform" "$build/stderr")"
  echo "ok: $name conforms"
}

# An author's test in a program of its own, with the same checks.
check_example_conforms() {
  conforms attention_one_pass --isa all  # it has kernels of its own for each level
  conforms sampler_cycle_breaker --option run_length=3
  conforms probe_rms
  conforms policy_long_keys
  "$build/one_pass_test" || fail "one_pass_test"
}

check_all() {
  check_attention
  check_sampler
  check_probe
  check_policy
  check_program
}

# Each kind has its own checks, which use the functions above.
check_parts() {
  local check
  cmake -S "$here/parts" -B "$build/parts" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build "$build/parts"
  plugins=$build/parts/plugins
  for check in "$here"/parts/*/check.sh; do
    . "$check"
  done
  plugins=$build/plugins
}

cmake -S "$here/example" -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$build"

# From a directory without anything of ng: nothing may depend on where it is called.
cd "$build"
bash "$here/newcomer.sh" "$prefix"
check_parts
check_example_conforms
check_all
original=$prefix
moved=$prefix.moved
mv "$original" "$moved"
trap 'mv "$moved" "$original"' EXIT
prefix=$moved
echo "moved to $moved"
check_all
