# The parts of kind cache, over flash where it can read them. Sourced by tests/sdk/run.sh.

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
  [ "$(run_ng "${spill[@]}" | list_of ids)" = "$1" ] || fail "spill changed the ids"
  [ ! -e "$build/spilled" ] || fail "spill left its file"
  plan_says "the cache's files " "${spill[@]}"
  echo "ok: spill gives the ids of contiguous, from a file"
}

check_fp8() {
  local fp8=(--cache.name=fp8 --attention.name=fp8)
  [ -n "$(run_ng "${fp8[@]}" | list_of ids)" ] || fail "fp8 gave no ids"
  plan_says "keys and values e4m3" "${fp8[@]}"
  refused "writes only layout e4m3_tiles16" --cache.name=fp8 --attention.name=flash
  refused "leave cache.codec at f32" "${fp8[@]}" --cache.codec=bf16
  echo "ok: fp8 runs with its backend and with no other one"
}

check_evict() {
  local few=(--cache.name=evict --cache.evict.window=24 --attention.name=reference)
  [ "$(run_ng --cache.name=evict | list_of ids)" = "$1" ] || fail "evict changed the ids"
  [ -n "$(run_ng "${few[@]}" | list_of ids)" ] || fail "evict gave no ids"
  grep -q "warning: cache plugin 'evict'.*is approximate" "$build/stderr" ||
    fail "no warning: $(cat "$build/stderr")"
  [ -n "$(run_ng "${few[@]}" --cache.evict.heavy=2 | list_of ids)" ] || fail "no heavy ids"
  plan_says "is approximate" "${few[@]}"
  refused "is approximate and keeps no snapshots" "${few[@]}" --save-cache "$build/none.cache"
  refused "'holes'" "${few[@]}" --attention.name=flash
  echo "ok: evict drops tokens, says so, and with a window as long as the text drops none"
}

ids=$(run_ng | list_of ids)
check_spill "$ids"
check_fp8
check_evict "$ids"
