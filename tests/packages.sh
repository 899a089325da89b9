#!/usr/bin/env bash
# Makes the Debian packages of a release build and looks at them: what each holds, what lintian says, that
# `uninstall` takes back what an install brought. With the folder of a Debian system of this version it also
# installs them there, uses every one of them, and looks at what they leave behind. By hand; the second part
# needs root, and /proc and /dev/pts mounted in that system.
#   tests/packages.sh BUILD_DIR [DEBIAN_ROOT]
set -Eeuo pipefail
[ $# -ge 1 ] || { echo "usage: tests/packages.sh BUILD_DIR [DEBIAN_ROOT]" >&2; exit 2; }
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
build=$(realpath "$1")
root=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# holds PACKAGE PATTERN...: a file of the package matches each extended regular expression.
holds() {
  local package=$1 pattern
  shift
  for pattern in "$@"; do
    grep -qE "$pattern" "$work/$package.list" || fail "$package has no file $pattern"
  done
  echo "ok: $package holds what it should"
}

# lacks PACKAGE PATTERN: no file of the package matches.
lacks() {
  if grep -E "$2" "$work/$1.list"; then fail "$1 has a file $2"; fi
}

check_contents() {
  local deb package duplicate
  for deb in "$work"/debs/ng*.deb; do
    package=$(dpkg-deb -f "$deb" Package)
    dpkg-deb -c "$deb" | awk '{print $6}' | sed 's/^\.//' >"$work/$package.list"
    echo "$package: $(wc -l <"$work/$package.list") files and folders, needs $(dpkg-deb -f "$deb" Depends)"
  done
  holds libng-core '/libng_core\.so\.0$' '/ng/plugins/ng_sampler_top_k\.so$' '/doc/libng-core/copyright$'
  holds ng '/bin/ng-run$' '/bin/ng-conform$' '/man/man1/ng-run\.1\.gz$' \
    '/bash-completion/completions/ng-run$' '/zsh/vendor-completions/_ng-run$' \
    '/fish/vendor_completions\.d/ng-run\.fish$' '/share/ng/demo\.ini$' '/share/ng/demo/config\.json$' \
    '/doc/ng/copyright$'
  holds libng-dev '/include/ng/engine\.h$' '/include/ng/conform.*\.h$' '/libng_core\.so$' \
    '/libng_conform\.a$' '/cmake/ng/ng-config\.cmake$' '/pkgconfig/ng-core\.pc$' '/doc/libng-dev/copyright$'
  holds python3-ng '/dist-packages/ng/__init__\.py$' '/dist-packages/ng/_ng\..*\.so$' \
    '/dist-packages/ng/py\.typed$' '/dist-packages/ng/_ng\.pyi$'
  holds ng-mpi '/ng/plugins/ng_fabric_mpi\.so$' '/doc/ng-mpi/copyright$'
  lacks libng-core '/(bin|include|man)/|ng_fabric_mpi'
  lacks ng '\.so|/include/'
  lacks libng-dev '/(bin|man1)/'
  lacks python3-ng '/(bin|include|man1)/|__pycache__'
  duplicate=$(grep -hv '/$' "$work"/*.list | sort | uniq -d)
  [ -z "$duplicate" ] || fail "in two packages: $duplicate"
}

# No error and no warning, but for these:
#   maintscript-calls-ldconfig: CPack writes the scripts; the trigger that should do it is there, too
#   package-name-doesnt-match-sonames: there is one version of the library at a time, with its programs
#   pkg-config-unavailable-for-cross-compilation: the prefix of the build has lib/, not lib/<machine>/
check_lintian() {
  command -v lintian >/dev/null || { echo "skipped: lintian is not there"; return; }
  local suppressed=maintscript-calls-ldconfig,package-name-doesnt-match-sonames
  suppressed+=,pkg-config-unavailable-for-cross-compilation
  lintian --allow-root --fail-on error,warning --suppress-tags "$suppressed" "$work"/debs/ng*.deb ||
    fail "lintian"
  echo "ok: lintian has nothing to say"
}

# An embedding program finds the library by pkg-config, wherever the prefix is.
check_install() {
  local left
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  cat >"$work/embed.cc" <<'END'
#include <ng/engine.h>
int main() { return ng::Engine::Open({}).ok() ? 1 : 0; }
END
  export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  g++ "$work/embed.cc" -o "$work/embed" $(pkg-config --cflags --libs ng-core) ||
    fail "a program does not compile with what pkg-config says"
  unset PKG_CONFIG_PATH
  LD_LIBRARY_PATH=$work/prefix/lib "$work/embed" || fail "the program that pkg-config helped to build"
  PYTHONPATH=$work/prefix/lib/python3/dist-packages /usr/bin/python3 -c 'import ng' || fail "import ng"
  cmake --build "$build" --target uninstall >/dev/null
  left=$(find "$work/prefix" ! -type d -o -name '*ng' -o -name 'libng-*')
  [ -z "$left" ] || fail "uninstall leaves $left"
  echo "ok: uninstall takes everything back"
}

inside() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive MANPAGER=cat bash -euo pipefail -c "$1"; }
install() { inside "apt-get install -y -qq --no-install-recommends $1" >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log"; fail "apt-get install $1"; }; }
files() { find "$root" -xdev \( -path "$root/proc" -o -path "$root/sys" -o -path "$root/tmp" \
  -o -path "$root/dev" -o -path "$root/root" -o -path "$root/run" -o -path "$root/var/cache" \
  -o -path "$root/var/log" -o -path "$root/var/lib/apt" -o -path "$root/var/lib/dpkg/*-old" \) -prune -o -print | sort; }

# Everything that the packages need is there before, so that what is compared is what they bring.
prepare_root() {
  inside 'apt-get update -qq' >/dev/null || fail "apt-get update"
  # What a run that failed has left.
  inside 'apt-get purge -y -qq ng libng-dev libng-core python3-ng ng-mpi' >/dev/null 2>&1 || true
  # A minimal image may be told to leave out man pages.
  rm -f "$root/etc/dpkg/dpkg.cfg.d/docker"
  local needs
  needs=$(for deb in "$work"/debs/ng*.deb; do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' |
    sed 's/(.*//; s/|.*//; /libng-core/d' | sort -u | tr '\n' ' ')
  install "man-db bash-completion g++ cmake ninja-build pkg-config zsh fish $needs"
  rm -rf "$root/tmp/ng-tree" && mkdir -p "$root/tmp/ng-tree" && mkdir -p "$root/tmp/debs"
  cp -r "$source/tests" "$source/plugins" "$source/configs" "$root/tmp/ng-tree/"
  cp "$work"/debs/ng*.deb "$root/tmp/debs/"
}

check_programs() {
  local program completed
  inside 'ng-run --config /usr/share/ng/demo.ini --message "Who art thou?" -n 8' 2>/dev/null | grep -q . ||
    fail "ng-run answers nothing"
  inside 'man ng-run' >"$work/man" 2>"$work/man.err" && [ ! -s "$work/man.err" ] ||
    fail "man ng-run: $(cat "$work/man.err")"
  grep -q 'sampler.top_k.k = 50' "$work/man" || fail "man ng-run does not describe a key of a plugin"
  for program in $(sed -n 's|.*/bin/\(ng-.*\)|\1|p' "$work/ng.list"); do
    inside "man $program" | grep -q SYNOPSIS || fail "man $program"
    inside "$program --version" | grep -q "^$program " || fail "$program --version"
  done
  echo "ok: the programs answer, are of this version and have man pages"
}

# What the first key of a section and a plugin's option are completed to, in shells as users start them.
check_completion() {
  local completed
  completed=$(inside 'set +eu; source /usr/share/bash-completion/bash_completion; _completion_loader ng-run
    complete_it() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); COMPREPLY=(); $call; echo "${COMPREPLY[*]}"; }
    call=$(complete -p ng-run | sed "s/.*-F \([^ ]*\).*/\1/")
    complete_it ng-run --run.thr; complete_it ng-run --sampler.top_k.')
  [ "$completed" = "--run.threads=
--sampler.top_k.k=" ] || fail "bash completes to: $completed"
  completed=$(inside 'for line in "ng-run --run.thr" "ng-run --sampler.top_k."; do
      fish -c "complete -C \"$line\"" | cut -f 1; done')
  [ "$completed" = "--run.threads=
--sampler.top_k.k=" ] || fail "fish completes to: $completed"
  # A key of its own shows the line that the tabulator key has made.
  cat >"$root/tmp/complete.zsh" <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -u -D; stty -echo columns 200
  show() { print -r -- "<<$BUFFER>>"; BUFFER=; zle accept-line }; zle -N show; bindkey "^X" show
  bindkey "^I" complete-word; print RE""ADY'
zpty -r shell said '*READY*'
zpty -w -n shell "$1"$'\t\x18'
zpty -r shell said '*>>*'
print -r -- ${${said##*<<}%%>>*}
END
  completed=$(inside 'for line in "ng-run --run.thr" "ng-run --sampler.top_k."; do
      timeout 60 zsh -f /tmp/complete.zsh "$line"; done')
  rm "$root/tmp/complete.zsh"
  [ "$completed" = "ng-run --run.threads=
ng-run --sampler.top_k.k=" ] || fail "zsh completes to: $completed"
  echo "ok: bash, fish and zsh complete keys and options of plugins"
}

check_python() {
  local said
  said=$(inside "cd / && python3 -c 'import ng; print(ng.Engine(\"/usr/share/ng/demo.ini\").chat(\"Who art thou?\").text)'")
  [ -n "$said" ] && [ "$said" = "$(inside 'ng-run --config /usr/share/ng/demo.ini --message "Who art thou?"' 2>/dev/null)" ] ||
    fail "python3 says: $said"
  inside 'PYTHONPATH=/tmp/ng-tree/tests/python NG_BIN=/usr/bin python3 -B -m unittest discover -s /tmp/ng-tree/tests/python -p "test_look.py"' \
    2>"$work/python.log" || { cat "$work/python.log"; fail "test_look.py with python3-ng"; }
  echo "ok: import ng answers: $said"
}

# A stage of a newcomer by CMake, as plugins/README.md has it, and the same without CMake.
check_development() {
  inside 'bash /tmp/ng-tree/tests/sdk/newcomer.sh /usr' || fail "a plugin by CMake"
  inside 'mkdir /tmp/ng-tree/stage && cd /tmp/ng-tree/stage && awk "/^\`lipogram.cc\`:/ { f = 1 } f && /^\`\`\`cpp/ { g = 1; next } g && /^\`\`\`/ { exit } g" \
      /tmp/ng-tree/plugins/README.md >lipogram.cc && [ -s lipogram.cc ] && mkdir plugins &&
    g++ -O2 -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden lipogram.cc \
      -o plugins/ng_sampler_lipogram.so $(pkg-config --cflags --libs ng-core) &&
    ng-run --config /usr/share/ng/demo.ini --plugins.path=plugins --sampler.chain=lipogram,greedy \
      --message "Who art thou?"' 2>"$work/plugin.log" >"$work/plugin.out" ||
    { cat "$work/plugin.log"; fail "a plugin by pkg-config"; }
  grep -q '[a-z]' "$work/plugin.out" && ! grep -q '[eE]' "$work/plugin.out" ||
    fail "the stage by pkg-config answers: $(cat "$work/plugin.out")"
  echo "ok: a plugin is built by CMake and by pkg-config"
}

rm -rf "$work/debs"
cpack --config "$build/CPackConfig.cmake" -B "$work/debs" >"$work/cpack.log" ||
  { cat "$work/cpack.log"; fail "cpack"; }
check_contents
check_lintian
check_install
[ -n "$root" ] || exit 0
prepare_root
files >"$work/before"
install '/tmp/debs/ng*.deb'
check_programs
check_completion
check_python
check_development
inside 'apt-get purge -y -qq ng libng-dev libng-core python3-ng' >/dev/null
files >"$work/after"
left=$(comm -13 "$work/before" "$work/after")
[ -z "$left" ] || fail "apt purge leaves $left"
gone=$(comm -23 "$work/before" "$work/after")
[ -z "$gone" ] || fail "apt purge takes with it $gone"
rm -rf "$root/tmp/debs" "$root/tmp/ng-tree"
echo "ok: apt purge leaves nothing"
