# Runs the attention parts through an installed ng-run; read by tests/sdk/run.sh, whose functions it
# uses. Every run is a checked one.

# ids_of BACKEND OPTION...: the ids of a greedy run.
ids_of() {
  local name=$1
  shift
  run_ng --attention.name="$name" --sampler.chain=greedy --run.max_new_tokens=24 \
    --run.check_plugins=true "$@" | list_of ids
}

expect_same() { [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1 gave $2, not $3"; }
expect_other() { [ -n "$2" ] && [ "$2" != "$3" ] || fail "$1 changed nothing"; }

# A rule that hides nothing gives the ids of reference, and one that hides much gives others.
check_rules() {
  local reference short=(--attention.sinks.sinks=2 --attention.sinks.window=4)
  reference=$(ids_of reference)
  expect_same "sinks, a long window" "$(ids_of sinks --attention.sinks.window=1000)" "$reference"
  expect_other "sinks, a short window" "$(ids_of sinks "${short[@]}")" "$reference"
  expect_same "sinks in small chunks" "$(ids_of sinks "${short[@]}" --run.prefill_chunk=3)" \
    "$(ids_of sinks "${short[@]}")"
  expect_same "topk, all keys" "$(ids_of topk --attention.topk.k=1000)" "$reference"
  expect_other "topk, 2 keys" "$(ids_of topk --attention.topk.k=2)" "$reference"
  expect_same "alibi without slopes" "$(ids_of alibi --attention.alibi.strength=0)" "$reference"
  expect_other "alibi" "$(ids_of alibi)" "$reference"
  echo "ok: sinks, topk and alibi do what their options say"
}

# The first backend's ids, and how far the second one was from it.
check_differ() {
  expect_same "differ" "$(ids_of differ)" "$(ids_of flash)"
  ids_of differ >/dev/null
  grep -q "attention differ: largest difference [0-9.e-]*, in layer [0-9]" "$build/stderr" ||
    fail "differ reported nothing: $(cat "$build/stderr")"
  echo "ok: differ compares two backends"
}

# Each rule is held against the formula with that rule.
check_conformance() {
  for kind in sinks topk alibi; do conforms "attention_$kind"; done
  conforms attention_sinks --option window=8 --option sinks=2 --rule window=8,first=2
  conforms attention_topk --option k=6 --rule top_k=6
  conforms attention_alibi --rule alibi
  conforms attention_differ
  conforms attention_fp8 --with "$plugins/ng_cache_fp8.so"
}

check_rules
check_differ
check_conformance
