# shellcheck shell=bash disable=SC2034
# Sourced by apps/quickstart.sh, tests/run.sh and .ci/run: the packages of Debian 12 and 13, and one
# way to configure and build.

# libcurl and OpenSSL's hashes are for ng-fetch alone.
ng_build_packages=(
  g++ cmake ninja-build
  libabsl-dev libboost-dev libboost-program-options-dev libtbb-dev
  nlohmann-json3-dev libicu-dev libpcre2-dev libsentencepiece-dev librandom123-dev libxxhash-dev
  libcurl4-openssl-dev libssl-dev
)
# OpenMPI is for the fabric mpi, which is built and tested where it is.
# pybind11 and Python's headers are for apps/python, which is built where they are; NumPy is what it
# gives its arrays as. A test makes a locale of its own: locales.
ng_test_packages=(
  libgtest-dev libgmock-dev librapidcheck-dev python3-jsonschema python3-regex python3-selenium
  chromium chromium-driver tmux locales
  pybind11-dev python3-dev python3-numpy
  libopenmpi-dev openmpi-bin
)
ng_sanitizer_packages=(clang libclang-rt-dev)
ng_check_packages=(clang-format clang-tidy git)

# ng_install PACKAGE...: installs those that are missing; touches nothing when none is.
ng_install() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "Not a Debian system; these packages must be there: $*" >&2
    return 0
  fi
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi
  local as_root=(env)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "Missing packages, and no sudo to install them: ${missing[*]}" >&2
      return 1
    }
    as_root=(sudo env)
  fi
  echo "Installing ${missing[*]}"
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "${missing[@]}" >/dev/null
}

# ng_build PRESET [-DOPTION=VALUE...] [--target TARGET]: configures and builds a preset of
# CMakePresets.json, from nothing in half of the time that a build takes which is made to be changed
# (see CONTRIBUTING.md). It has the kernels for this machine, and says which; NG_LEVELS=all builds
# those for others too.
ng_build() {
  local preset=$1 option options=() targets=()
  shift
  for option in "$@"; do
    if [[ $option == -D* ]]; then options+=("$option"); else targets+=("$option"); fi
  done
  cmake --preset "$preset" -DNG_UNITY=ON -DNG_LEVELS="${NG_LEVELS:-native}" "${options[@]}" |
    sed -n 's/^-- \(Instruction set levels\)/\1/p'
  cmake --build --preset "$preset" -j "$(nproc)" "${targets[@]}"
}
