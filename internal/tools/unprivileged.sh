#!/usr/bin/env bash
# Runs `go test` with these arguments as an ordinary user without any capability. Root prepares a copy of the checkout that belongs to
# this user; it is removed at the end. UNPRIVILEGED names another user than nobody.
set -euo pipefail
cd "$(dirname "$0")/../.."
user=${UNPRIVILEGED:-nobody}

if [[ $(id -u) != 0 ]]; then
  echo "unprivileged: only root can become another user; for an ordinary user 'make test' does the same" >&2
  exit 1
fi

place=$(mktemp -d /tmp/ck-user-XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place"/{src,home,cache}
git ls-files -coz --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C "$place/src"
(cd "$place/src" && go mod vendor) # root's modules lie where nobody else may read
chown -hR "$user:" "$place"
cd "$place/src"

become=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --bounding-set -all --inh-caps -all --ambient-caps -all --no-new-privs)
path= # without folders of root's that this user cannot look into, in which a program may be or not
IFS=: read -ra folders <<<"$PATH"
for folder in "${folders[@]}"; do
  if "${become[@]}" test -x "$folder/."; then path+=${path:+:}$folder; fi
done

as_user() {
  "${become[@]}" env -u TMPDIR -u XDG_CACHE_HOME -u XDG_RUNTIME_DIR HOME="$place/home" GOCACHE="$place/cache" PATH="$path" USER="$user" LOGNAME="$user" \
    GOFLAGS="-mod=vendor -buildvcs=false" "$@"
}
as_user examples/scrapy/setup.sh
as_user go test "$@"
