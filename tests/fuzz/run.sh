#!/usr/bin/env bash
# Runs every fuzz target for so many seconds, as many at a time as there are cores.
#   bash tests/fuzz/run.sh SECONDS [JOBS]
# The targets must be built: cmake --preset asan && cmake --build --preset asan. An input that one
# fails on is kept in build-asan/findings/; `build-asan/bin/fuzz_<reader> FILE` runs it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:?usage: run.sh SECONDS [JOBS]}
jobs=${2:-$(nproc)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p build-asan/findings

# seeds TARGET: the small files of that kind among the tests' data.
seeds() {
  local of=(tests/data -size -6k)
  case $1 in
    fuzz_cache_file) find tests/data/fuzz -name '*.cache' ;;
    fuzz_calls) find tests/data/fuzz -name '*.calls' ;;
    fuzz_chat_template) find tests/data/fuzz -name '*.jinja' -o -name 'tokenizer_config.json' ;;
    fuzz_command_line) find tests/data/fuzz -name '*.args' -o -name '*prompts.jsonl' -o -name '*.record.json' ;;
    fuzz_config_json) find "${of[@]}" -name config.json ;;
    fuzz_gguf) find "${of[@]}" -name '*.gguf' ;;
    fuzz_grammar) find tests/data/fuzz -name '*.grammar' ;;
    fuzz_ini) find configs tests/data/fuzz -name '*.ini' ;;
    fuzz_request) find tests/data/fuzz -name '*.request' ;;
    fuzz_safetensors) find "${of[@]}" -name 'model*.safetensors' -o -name '*.index.json' ;;
    fuzz_tokenizer_json) find "${of[@]}" -name '*tokenizer.json' ;;
    *) echo "no seeds are known for $1" >&2 && return 1 ;;
  esac
}

# fuzz BINARY: its log is shown when it fails. A unit of ten seconds, or one that takes more memory
# than its size explains, is a finding too.
fuzz() {
  local name corpus=$scratch/${1##*/} log=$scratch/${1##*/}.log file n=0
  name=${1##*/}
  mkdir "$corpus"
  while read -r file; do cp "$file" "$corpus/$((n += 1))"; done < <(seeds "$name")
  if [ "$n" -eq 0 ]; then echo "$name: no seeds" && return 1; fi
  if ! "$1" "$corpus" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=1024 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="build-asan/findings/$name-" \
    >"$log" 2>&1; then
    echo "$name: FAILED"
    tail -n 60 "$log"
    return 1
  fi
  echo "$name: $n seeds, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no finding"
}
export -f fuzz seeds
export scratch seconds TMPDIR=$scratch
# Newer Abseil poisons the free places of its tables in its headers, but not in the installed library.
export ASAN_OPTIONS=allow_user_poisoning=0

printf '%s\0' build-asan/bin/fuzz_* | xargs -0 -n 1 -P "$jobs" bash -euo pipefail -c 'fuzz "$1"' fuzz
