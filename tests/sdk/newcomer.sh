#!/usr/bin/env bash
# Follows the section "Your first stage" of plugins/README.md word by word, in a fresh home that has
# nothing of ng but the installed prefix: writes the files that it shows, runs its commands, and chats
# with the stage that came out of it.
#   tests/sdk/newcomer.sh PREFIX
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: tests/sdk/newcomer.sh PREFIX" >&2; exit 2; }
prefix=$(realpath "$1")
readme=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/../../plugins/README.md
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/stage"
ln -s "$prefix" "$home/ng"

# A block of code after a line "`FILE`:" is that file, and the blocks of sh are the commands.
awk -v to="$home/stage/" '
  /^## / { inside = $0 == "## Your first stage" }
  !inside { next }
  /^```/ && open { open = 0; file = ""; next }
  open && file != "" { print > file; next }
  open { next }
  match($0, /`[^`]+`:$/) { name = substr($0, RSTART + 1, RLENGTH - 3); next }
  /^```/ { open = 1 }
  /^```sh/ { file = to "commands" }
  /^```(cmake|cpp)/ { file = to name }
' "$readme"
for file in CMakeLists.txt lipogram.cc commands; do
  [ -s "$home/stage/$file" ] || { echo "FAILED: plugins/README.md shows no $file" >&2; exit 1; }
done

cd "$home/stage"
# follow FILE: does what it says, in an environment without anything else.
follow() { env -i HOME="$home" PATH="$PATH" bash -euo pipefail "$1"; }
fail() {
  cat ./*.out >&2
  echo "FAILED: $*" >&2
  exit 1
}

# The chat is the last command.
chat=$(grep -n '^~/ng/bin/ng-run' commands | tail -n 1 | cut -d: -f1)
head -n $((chat - 1)) commands >build_commands
tail -n "+$chat" commands >chat_commands
follow build_commands >build.out 2>&1 || fail "the build commands"
grep -q '^ *sampler.lipogram.without = e,E$' build.out || fail "--list-plugins shows no option"
printf 'Who art thou?\nGood night!\n' | follow chat_commands >chat.out 2>stderr.out || fail "the chat"
grep -q '[a-z]' chat.out || fail "no answer"
! grep -q '[eE]' chat.out || fail "the stage let an e through"
echo "ok: plugins/README.md, followed word by word, answers: $(head -n 1 chat.out)"
