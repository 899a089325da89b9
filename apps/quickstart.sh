#!/usr/bin/env bash
# From a fresh Debian 12 or 13 to a first answer: installs what is missing, builds, runs the demo.
#   bash apps/quickstart.sh [MESSAGE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source apps/common.sh
message=${1:-Who art thou, and what news dost thou bring?}

ng_install "${ng_build_packages[@]}"
ng_build release -DNG_BUILD_TESTS=OFF

echo
echo "> $message"
build/bin/ng-run --config configs/demo.ini --message "$message"

cat <<'END'

That was:    build/bin/ng-run --config configs/demo.ini --message "..."
Talk to it:  build/bin/ng-run --config configs/demo.ini --chat
Swap a part: build/bin/ng-run --config configs/demo.ini --attention.name=reference --message "..."
All parts:   build/bin/ng-run --list-plugins
All options: build/bin/ng-run --config configs/demo.ini --help all
Write one:   plugins/README.md
END
