#!/usr/bin/env bash
# Makes the Debian packages of a release build and looks at them: what each holds, that `uninstall`
# takes back what an install brought, and, with the folder of a Debian 12 system, that the packages can
# be installed there, are used and leave nothing behind. By hand; the second part needs root.
#   tests/packages.sh BUILD_DIR [DEBIAN_ROOT]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: tests/packages.sh BUILD_DIR [DEBIAN_ROOT]" >&2; exit 2; }
build=$(realpath "$1")
root=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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

cpack --config "$build/CPackConfig.cmake" -B "$work/debs" >"$work/cpack.log" ||
  { cat "$work/cpack.log"; fail "cpack"; }
for deb in "$work"/debs/*.deb; do
  package=$(dpkg-deb -f "$deb" Package)
  dpkg-deb -c "$deb" | awk '{print $6}' | sed 's/^\.//' >"$work/$package.list"
  echo "$package: $(wc -l <"$work/$package.list") files and folders, needs $(dpkg-deb -f "$deb" Depends)"
done
holds libng-core '/libng_core\.so\.0$' '/ng/plugins/ng_sampler_top_k\.so$' '/doc/libng-core/copyright$'
holds ng '/bin/ng-run$' '/bin/ng-conform$' '/man/man1/ng-run\.1' '/bash-completion/completions/ng-run$' \
  '/zsh/vendor-completions/_ng-run$' '/fish/vendor_completions\.d/ng-run\.fish$' '/share/ng/demo\.ini$' \
  '/share/ng/demo/config\.json$' '/doc/ng/copyright$'
holds libng-dev '/include/ng/engine\.h$' '/include/ng/conform.*\.h$' '/libng_core\.so$' '/libng_conform\.a$' \
  '/cmake/ng/ng-config\.cmake$' '/pkgconfig/ng-core\.pc$' '/doc/libng-dev/copyright$'
if [ -e "$work/python3-ng.list" ]; then holds python3-ng '/dist-packages/ng/__init__\.py$' '/dist-packages/ng/_ng.*\.so$'; fi
lacks libng-core '/(bin|include|man)/'
lacks ng '\.so|/include/'
lacks libng-dev '/(bin|man1)/'
duplicate=$(grep -hv '/$' "$work"/*.list | sort | uniq -d)
[ -z "$duplicate" ] || fail "in two packages: $duplicate"

# An embedding program finds the library by pkg-config, wherever the prefix is.
cmake --install "$build" --prefix "$work/prefix" >/dev/null
pkg-config() { PKG_CONFIG_PATH=$(dirname "$(find "$work" -name ng-core.pc)") command pkg-config "$@"; }
command -v pkg-config >/dev/null && [ "$(pkg-config --modversion ng-core)" ] || fail "pkg-config"
cat >"$work/embed.cc" <<'END'
#include <ng/engine.h>
int main() { return ng::Engine::Open({}).ok() ? 1 : 0; }
END
# shellcheck disable=SC2046
g++ "$work/embed.cc" -o "$work/embed" $(pkg-config --cflags --libs ng-core) ||
  fail "a program does not compile with what pkg-config says"
LD_LIBRARY_PATH=$work/prefix/lib "$work/embed" || fail "the program that pkg-config helped to build"
cmake --build "$build" --target uninstall >/dev/null
left=$(find "$work/prefix" ! -type d)
[ -z "$left" ] || fail "uninstall leaves $left"
for folder in share/ng include/ng lib/ng lib/cmake/ng; do
  [ ! -e "$work/prefix/$folder" ] || fail "uninstall leaves $folder"
done
echo "ok: uninstall takes everything back"

[ -n "$root" ] || exit 0
inside() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive MANPAGER=cat bash -c "$1"; }
files() { find "$root" -xdev \( -path "$root/proc" -o -path "$root/sys" -o -path "$root/var" -o -path "$root/tmp" \
  -o -path "$root/dev" -o -path "$root/root" \) -prune -o -print | sort; }
inside 'apt-get update -qq && apt-get install -y -qq --no-install-recommends man-db bash-completion' >/dev/null
# A minimal image may be told to leave out man pages.
rm -f "$root/etc/dpkg/dpkg.cfg.d/docker"
# What the packages need, marked as such, stays; only ng's own files are compared.
inside "apt-get install -y -qq --no-install-recommends $(dpkg-deb -f "$work"/debs/libng-core_*.deb Depends |
  tr ',' '\n' | sed 's/(.*//; s/|.*//' | tr '\n' ' ') libabsl-dev libedit2" >/dev/null
files >"$work/before"
mkdir -p "$root/tmp/debs"
cp "$work"/debs/*.deb "$root/tmp/debs/"
inside 'apt-get install -y -qq --no-install-recommends /tmp/debs/*.deb' >/dev/null
inside 'ng-run --config /usr/share/ng/demo.ini --message "Who art thou?" -n 8' 2>/dev/null | grep -q . ||
  fail "ng-run answers nothing"
inside 'man ng-run' | grep -q 'sampler.top_k.k = 50' || fail "man ng-run"
for program in $(sed -n 's|.*/bin/\(ng-.*\)|\1|p' "$work/ng.list"); do
  inside "man $program" | grep -q SYNOPSIS || fail "man $program"
done
completed=$(inside 'source /usr/share/bash-completion/bash_completion; _completion_loader ng-run
  COMP_WORDS=(ng-run --sampler.top_k.) COMP_CWORD=1; $(complete -p ng-run | sed "s/.*-F \([^ ]*\).*/\1/"); echo "${COMPREPLY[*]}"')
[ "$completed" = "--sampler.top_k.k=" ] || fail "bash completes to: $completed"
echo "ok: the packages are installed, answer, explain and complete themselves"
inside 'apt-get remove -y -qq ng libng-dev libng-core' >/dev/null
files >"$work/after"
left=$(comm -13 "$work/before" "$work/after")
[ -z "$left" ] || fail "apt remove leaves $left"
echo "ok: apt remove leaves nothing"
