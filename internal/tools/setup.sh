#!/usr/bin/env bash
# Installs what is missing. Quick when all is there.
#   setup.sh servers  Redis and Postgres, the binaries only: nothing is left running (the demo)
#   setup.sh scrapy   the same, and a virtual environment with the crawlers of examples/scrapy
#   setup.sh all      the same, and a browser (the tests)
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-all}

has_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; }

packages=()
command -v redis-server >/dev/null 2>&1 || packages+=(redis-server)
command -v redis-cli >/dev/null 2>&1 || packages+=(redis-tools)
has_postgres || packages+=(postgresql)
if [[ $what != servers ]]; then
  command -v python3 >/dev/null 2>&1 || packages+=(python3)
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || packages+=(python3-venv)
fi
if [[ $what == all ]]; then
  command -v chromium >/dev/null 2>&1 || packages+=(chromium)
  command -v unshare >/dev/null 2>&1 || packages+=(util-linux)
  command -v cc >/dev/null 2>&1 || packages+=(gcc libc6-dev) # for the race detector
fi

if ((${#packages[@]})); then
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: these are missing, and only root on Debian may install them here: ${packages[*]}" >&2
    echo "setup: install them (Debian: sudo apt-get install ${packages[*]}) and run this again" >&2
    exit 1
  fi
  echo "setup: installing ${packages[*]}"
  # Their services are not wanted: tests and the demo run private servers.
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
    trap 'rm -f $policy' EXIT
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

[[ $what == servers ]] || examples/scrapy/setup.sh
