# Runs the cache parts through an installed ng-run, over flash where it can read them; read by
# tests/sdk/run.sh, whose functions it uses. Every run is a checked one.

# cache_ids OPTION...: the ids of an answer.
cache_ids() { run_ng --run.check_plugins=true "$@" | list_of ids; }

# refused TEXT OPTION...: ng-run ends with exit code 4 and an error that holds the text.
refused() {
  local text=$1 code=0
  shift
  "$prefix/bin/ng-run" --config "$config" --plugins.path="$plugins" --message "$message" "$@" \
    >/dev/null 2>"$build/stderr" || code=$?
  [ "$code" = 4 ] || fail "ng-run $* ended with $code, not with 4: $(cat "$build/stderr")"
  grep -qF -- "$text" "$build/stderr" || fail "ng-run $* said: $(cat "$build/stderr")"
}

# plan_says TEXT OPTION...: --dry-run shows the text.
plan_says() {
  local text=$1
  shift
  run_ng --dry-run "$@" | grep -qF -- "$text" || fail "--dry-run $* does not show: $text"
}

check_spill() {
  local spill=(--cache.name=spill --cache.spill.file="$build/spilled")
  [ "$(cache_ids "${spill[@]}")" = "$1" ] || fail "spill changed the ids"
  [ "$(cache_ids "${spill[@]}" --cache.codec=int8)" = "$(cache_ids --cache.codec=int8)" ] ||
    fail "spill changed the ids of int8"
  [ ! -e "$build/spilled" ] || fail "spill left its file"
  plan_says "the cache's files " "${spill[@]}"
  echo "ok: spill gives the ids of contiguous, from a file"
}

check_fp8() {
  local fp8=(--cache.name=fp8 --attention.name=fp8)
  [ -n "$(cache_ids "${fp8[@]}")" ] || fail "fp8 gave no ids"
  plan_says "keys and values e4m3" "${fp8[@]}"
  refused "writes only layout e4m3_tiles16" --cache.name=fp8 --attention.name=flash
  refused "can run: f32" "${fp8[@]}" --cache.codec=bf16
  echo "ok: fp8 runs with its backend and with no other one"
}

# Answers without an end, so that there is something to drop.
check_evict() {
  local plain few=(--cache.name=evict --cache.evict.sinks=0 --cache.evict.window=8 --run.stop_ids=
    --attention.name=reference) window heavy
  plain=$(cache_ids --run.stop_ids=)
  [ "$(cache_ids --cache.name=evict --run.stop_ids=)" = "$plain" ] || fail "evict changed the ids"
  window=$(cache_ids "${few[@]}")
  grep -q "warning: cache plugin 'evict'.*is approximate" "$build/stderr" ||
    fail "no warning: $(cat "$build/stderr")"
  heavy=$(cache_ids "${few[@]}" --cache.evict.heavy=1)
  [ -n "$window" ] && [ "$window" != "$plain" ] || fail "evict dropped nothing: $window"
  [ -n "$heavy" ] && [ "$heavy" != "$window" ] || fail "evict kept nothing more: $heavy"
  plan_says "is approximate" "${few[@]}"
  refused "is approximate and keeps no snapshots" "${few[@]}" --save-cache "$build/none.cache"
  refused "'holes'" "${few[@]}" --attention.name=flash
  echo "ok: evict drops tokens, says so, and with a window as long as the text drops none"
}

check_conformance() {
  local few=(--option window=8 --option sinks=2 --profile approximate)
  conforms cache_spill --option file="$build/spilled"
  conforms cache_fp8 --with "$plugins/ng_attention_fp8.so"
  conforms cache_evict
  conforms cache_evict "${few[@]}"
  conforms cache_evict "${few[@]}" --option heavy=1
}

ids=$(run_ng | list_of ids)
check_spill "$ids"
check_fp8
check_evict
check_conformance
