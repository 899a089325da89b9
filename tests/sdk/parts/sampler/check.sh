# Runs the sampler parts through an installed ng-run; read by tests/sdk/run.sh, whose functions it
# uses. Every run is a checked one.

# run_stages CHAIN OPTION...: an answer, by these stages.
run_stages() { run_ng --run.check_plugins=true --sampler.chain="$@"; }

# value_of KEY: the text under a key of a line of JSON.
value_of() { grep -o "\"$1\":\"[^\"]*\"" | sed 's/^[^:]*:"//; s/"$//'; }

# The draws of a stage are the request's: the same text whatever runs beside it.
check_xtc() {
  local prompts=$build/prompts.jsonl expected n ours plain
  printf '{"prompt":"%s"}\n' "KING:" "Who art thou?" "My lord," >"$prompts"
  for n in 1 2 3; do
    ours=$("$prefix/bin/ng-run" --config "$config" --plugins.path="$plugins" --output jsonl \
      --prompts "$prompts" --sampler.chain=temperature,xtc,top_k --run.check_plugins=true \
      --run.max_new_tokens=40 --cache.max_sequences="$n" 2>"$build/stderr" | list_of ids) ||
      fail "xtc: $(cat "$build/stderr")"
    [ "$(wc -l <<<"$ours")" = 3 ] || fail "xtc gave $ours"
    [ "${expected:=$ours}" = "$ours" ] || fail "xtc gave another text for max_sequences = $n"
  done
  ours=$(run_stages xtc,greedy | list_of ids)
  plain=$(run_stages greedy | list_of ids)
  [ "$ours" != "$plain" ] || fail "xtc changed nothing"
  echo "ok: xtc gives the same texts for any cache.max_sequences"
}

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

check_mirostat() {
  local plain ours again
  plain=$(run_stages temperature | list_of ids)
  ours=$(run_stages temperature,mirostat --sampler.mirostat.tau=2 | list_of ids)
  again=$(run_stages temperature,mirostat --sampler.mirostat.tau=2 | list_of ids)
  [ -n "$ours" ] && [ "$ours" = "$again" ] || fail "mirostat gave $ours, then $again"
  [ "$ours" != "$plain" ] || fail "mirostat changed nothing"
  echo "ok: mirostat gives the same text again, and not the plain one"
}

check_typical_p() {
  local plain all some
  plain=$(run_stages temperature | list_of ids)
  all=$(run_stages temperature,typical_p --sampler.typical_p.p=1 | list_of ids)
  [ -n "$plain" ] && [ "$all" = "$plain" ] || fail "typical_p of all gave $all, not $plain"
  some=$(run_stages temperature,typical_p --sampler.typical_p.p=0.3 | list_of ids)
  [ "$some" != "$plain" ] || fail "typical_p changed nothing"
  echo "ok: typical_p narrows, and p = 1 keeps all"
}

check_logit_bias() {
  local first other bias
  first=$(run_stages greedy | list_of ids | awk '{ print $9 }')
  bias=--sampler.logit_bias.bias
  other=$(run_stages logit_bias,greedy "$bias=$first=-inf" | list_of ids | awk '{ print $9 }')
  [ -n "$first" ] && [ "$other" != "$first" ] || fail "logit_bias did not ban $first"
  other=$(run_stages logit_bias,greedy "$bias=77=1e6" | list_of ids | awk '{ print $9 }')
  [ "$other" = 77 ] || fail "logit_bias did not force 77 but $other"
  echo "ok: logit_bias bans and forces"
}

# Greedy alone goes in circles; with a penalty above all logits no three tokens occur again.
check_dry() {
  local plain dry n_prompt
  plain=$(run_stages greedy --run.stop_ids=)
  dry=$(run_stages dry,greedy --run.stop_ids= --sampler.dry.multiplier=100 \
    --sampler.dry.allowed=1 --sampler.dry.breakers=)
  n_prompt=$(list_of prompt_ids <<<"$dry" | wc -w)
  ! list_of ids <<<"$plain" | no_pair_twice "$n_prompt" || fail "greedy alone repeats no pair"
  list_of ids <<<"$dry" | no_pair_twice "$n_prompt" || fail "dry let a pair repeat"
  echo "ok: dry breaks repetitions"
}

check_conformance() {
  local name
  for name in dry typical_p xtc; do conforms "sampler_$name"; done
  conforms sampler_logit_bias --option bias=3=-inf,5=2
  # Their state follows the answer.
  for name in mirostat regex; do conforms "sampler_$name" --profile constraint; done
}

check_xtc
check_regex
check_mirostat
check_typical_p
check_logit_bias
check_dry
check_conformance
