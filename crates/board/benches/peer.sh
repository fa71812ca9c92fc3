#!/usr/bin/env bash
# Writes a second of `placet board serve` beside blackboardx (Python), with one load generator, in memory and on SQLite.
#
#   crates/board/benches/peer.sh [SECONDS] [ROUNDS]
#
# The servers run one after the other in every round, so that what else the machine does falls on both; of several rounds the
# best counts. Files of SQLite are made under this clone, for /tmp may be memory. Needs Python 3.11 and a way to PyPI for the
# first run; the peer is installed under ~/.cache/placet-board-peer. PLACET_PROGRAM names a program to measure instead of one
# that is built here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
seconds=${1:-5} rounds=${2:-3}
home=${PLACET_PEER_HOME:-$HOME/.cache/placet-board-peer}
[ -x "$home/bin/python" ] || { python3 -m venv "$home" && "$home/bin/pip" -q install 'blackboardx==0.14.1' httpx; }
[ -n "${PLACET_PROGRAM:-}" ] || cargo build -q --profile bench -p placet-cli
load=$(cargo bench -q -p placet-board --bench http --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\/http-[^"]*\)".*/\1/p' | tail -n 1)
target=${CARGO_TARGET_DIR:-target}
placet=${PLACET_PROGRAM:-$target/release/placet}
work=$(mktemp -d "$target/peer.XXXXXX")
work=$(realpath "$work")
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

cat >"$work/peer.py" <<'PY'
import json, sys
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from blackboard import InMemoryStore, Level, RunLimits, SqliteStore, create_model
from blackboard.server import BoardService, Request
store = InMemoryStore() if sys.argv[2] == "memory" else SqliteStore(sys.argv[2])
limits = RunLimits(wall_clock=timedelta(hours=1), idle=timedelta(hours=1))
model = create_model(board_id="b", store=store, regions=[Level("l")], premises={}, agents=[], limits=limits)
service = BoardService(lambda board: model.control if board == "b" else None, store=store)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"; disable_nagle_algorithm = True; wbufsize = -1
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = service.handle(Request("POST", self.path, body, {}))
        raw = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status); self.send_header("content-length", str(len(raw))); self.end_headers()
        self.wfile.write(raw)
    def log_message(self, *args): pass
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler); server.daemon_threads = True; server.serve_forever()
PY

wait_for() {
    for _ in $(seq 300); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done
    echo "nothing listens on $1" >&2
    exit 1
}
start_peer() { "$home/bin/python" "$work/peer.py" "$1" "$2" & pids+=($!); wait_for "$1"; }
start_ours() {
    PLACET_HOME="$work/$1" "$placet" board serve --listen "127.0.0.1:$1" "${@:2}" >/dev/null & pids+=($!)
    wait_for "$1"
    "$placet" board create b --level l --wall-clock 3600 --idle 3600 --at "http://127.0.0.1:$1/v1" >/dev/null
}
# Processor time of a process in hundredths of a second.
ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'; }
# NAME PID PORT PATH CLIENTS
measure() {
    local before line count
    before=$(ticks "$2")
    line=$("$load" "127.0.0.1:$3" "$4" "$5" "$seconds")
    count=$(sed -n 's/.*, \([0-9]*\) in all.*/\1/p' <<<"$line")
    awk -v name="$1" -v ticks="$(($(ticks "$2") - before))" -v count="$count" -v line="${line#*: }" \
        'BEGIN { printf "  %-18s %s, %.1f µs of the server'"'"'s processor time each\n", name, line, ticks * 10000 / count }'
}
start_peer 18701 memory
start_ours 18702 --memory
start_peer 18703 "$work/peer.sqlite"
start_ours 18704
for round in $(seq "$rounds"); do
    for clients in 8 1; do
        echo "round $round, $clients clients"
        measure "memory, peer" "${pids[0]}" 18701 /boards/b/levels/l "$clients"
        measure "memory, placet" "${pids[1]}" 18702 /v1/boards/b/levels/l "$clients"
        measure "SQLite, peer" "${pids[2]}" 18703 /boards/b/levels/l "$clients"
        measure "SQLite, placet" "${pids[3]}" 18704 /v1/boards/b/levels/l "$clients"
    done
done
