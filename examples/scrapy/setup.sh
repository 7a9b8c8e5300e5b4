#!/bin/sh
# Makes the virtual environment of the example spiders, once: it is made anew only when requirements.txt or Python changed.
#
#   setup.sh [DIRECTORY]     default: .venv in the root of the repository
#
# PYTHON names another interpreter (3.11 or newer); default: python3. Needs Debian's python3-venv.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../.venv}
python=${PYTHON:-python3}

if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup.sh: $python is missing, older than 3.11, or has no venv module: apt-get install python3 python3-venv" >&2
    exit 1
fi

stamp=$venv/.crawlkeeper-stamp
want=$( { "$python" -VV; cat "$here/requirements.txt"; } | sha256sum | cut -d ' ' -f 1)
if [ -x "$venv/bin/scrapy" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi

echo "setup.sh: installing the example spiders' packages into $venv" >&2
rm -f "$stamp"
"$python" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$here/requirements.txt"
"$venv/bin/pip" check --quiet --disable-pip-version-check
echo "$want" > "$stamp"
