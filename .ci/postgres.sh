#!/usr/bin/env bash
# A throw-away PostgreSQL server for the tests.
#
#   .ci/postgres.sh start   starts it (installing Debian's package where there is none) and prints its URL, nothing else
#   .ci/postgres.sh stop    stops it and removes its files; well also where none was started
#
# One server for each clone: a second `start` prints the URL of the first. It listens on 127.0.0.1 only, under a password
# made for it, and keeps the server's own settings for durability, so that what is measured on it means something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Holds the folder of the running cluster.
mark=target/postgres.folder

fail() {
    echo "error: .ci/postgres.sh: $*" >&2
    exit 1
}

# The folder with PostgreSQL's programs: Debian keeps them off the PATH. The newest version where there are several.
programs() {
    local found
    for found in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
        if [ -x "$found/initdb" ]; then echo "$found" && return; fi
    done
    found=$(command -v initdb) && dirname "$(readlink -f "$found")"
}

install() {
    echo "installing PostgreSQL from Debian's package" >&2
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then sudo=(sudo -n); fi
    # Only the programs are wanted: without this line the package also creates a cluster of its own and starts it.
    "${sudo[@]}" mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | "${sudo[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
    "${sudo[@]}" apt-get update -qq >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Options::=--force-confold postgresql >&2
}

# The server refuses to run as root, so root steps down.
as_server() {
    if [ "$(id -u)" -ne 0 ]; then
        "$@"
    else
        (cd / && runuser -u "$(server_user)" -- "$@")
    fi
}

server_user() {
    if id postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi
}

running() {
    [ -f "$mark" ] && as_server "$bin/pg_ctl" -D "$(cat "$mark")/data" status >/dev/null 2>&1
}

start() {
    bin=$(programs) || { install && bin=$(programs); } || fail "no PostgreSQL here, and none could be installed"
    if running; then
        cat "$(cat "$mark")/url"
        return
    fi
    stop

    local folder password port
    folder=$(mktemp -d "${TMPDIR:-/tmp}/placet-postgres.XXXXXX")
    mkdir -p target
    echo "$folder" >"$mark"
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077 && echo "$password" >"$folder/password")
    if [ "$(id -u)" -eq 0 ]; then chown -R "$(server_user)" "$folder"; fi
    as_server "$bin/initdb" -D "$folder/data" -U placet --pwfile="$folder/password" --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C --no-instructions >"$folder/initdb.log" 2>&1 ||
        fail "initdb failed: $(tail -n 5 "$folder/initdb.log")"

    # Nobody hands out free ports: one is drawn below the range that the kernel gives to clients, and drawn again where
    # it is taken.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        port=$((20000 + $(od -An -N2 -tu2 /dev/urandom | tr -d ' ') % 12000))
        # Its output goes to a file: a server that held ours open would keep who reads the URL waiting for ever.
        if as_server "$bin/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w -t 60 \
            -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories='' -c max_connections=300" \
            start >"$folder/start.log" 2>&1 </dev/null; then
            echo "postgres://placet:$password@127.0.0.1:$port/postgres?sslmode=disable" >"$folder/url"
            chmod 600 "$folder/url"
            cat "$folder/url"
            return
        fi
    done
    tail -n 20 "$folder/server.log" >&2 || true
    stop
    fail "the server did not start"
}

stop() {
    [ -f "$mark" ] || return 0
    local folder
    folder=$(cat "$mark")
    bin=${bin:-$(programs)} || true
    if [ -n "$folder" ] && [ -f "$folder/data/postmaster.pid" ]; then
        as_server "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    fi
    case "$folder" in
    */placet-postgres.*) rm -rf -- "$folder" ;;
    esac
    rm -f -- "$mark"
}

case "${1:-}" in
start) start ;;
stop) stop ;;
*) fail "say start or stop" ;;
esac
