# Runs the sampler parts through an installed ng-run; read by tests/sdk/run.sh, whose functions it
# uses. Every run is a checked one.

# run_stages CHAIN OPTION...: an answer, by these stages.
run_stages() { run_ng --run.check_plugins=true --sampler.chain="$@"; }

# value_of KEY: the text under a key of a line of JSON.
value_of() { grep -o "\"$1\":\"[^\"]*\"" | sed 's/^[^:]*:"//; s/"$//'; }

check_regex() {
  local pattern='[A-Z][a-z]+: (Ay|No), [a-z]+( [a-z]+){2,5}[.!]' ours
  ours=$(run_stages regex,temperature --sampler.regex.pattern="$pattern")
  value_of text <<<"$ours" | grep -qxE "$pattern" || fail "regex gave $ours"
  [ "$(value_of stop_reason <<<"$ours")" = stage ] || fail "regex ended otherwise: $ours"
  # Here every text matches that is one line: only the model itself can end it.
  ours=$(run_stages regex,temperature --sampler.regex.pattern='[^\n]+')
  [ "$(value_of stop_reason <<<"$ours")" = eot ] || fail "regex ended otherwise: $ours"
  # In a conversation the next turn follows as after any answer.
  ours=$(printf 'Hello\nWho art thou?\n' | "$prefix/bin/ng-run" --config "$config" --chat \
    --plugins.path="$plugins" --output jsonl --sampler.chain=regex,temperature \
    --sampler.regex.pattern="$pattern" --run.max_new_tokens=60 2>"$build/stderr") ||
    fail "regex: $(cat "$build/stderr")"
  [ "$(value_of stop_reason <<<"$ours" | grep -cx stage)" = 2 ] || fail "regex chatted: $ours"
  echo "ok: regex gives what matches and ends there"
}

# Its state follows the answer.
check_conformance() { conforms sampler_regex; }

check_regex
check_conformance
