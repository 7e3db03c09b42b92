# The steps that run another implementation against this one. They need node
# and the folders interop, peer and profiles of $SHARED.

JS=$WORK/js
ACE=$WORK/bin/ace

# need_peers skips the step unless the peers can run, and prepares them once: a
# copy of the three folders side by side, with their modules installed.
need_peers() {
  command -v node >/dev/null && command -v npm >/dev/null || skip 'node and npm are not installed'
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    skip "node $(node --version) is older than 20.19"
  local folder
  for folder in interop peer profiles; do
    [ -d "$SHARED/$folder" ] || skip "no $folder folder in the shared folder: set ACE_SHARED"
  done
  if [ ! -e "$JS/ready" ]; then
    mkdir -p "$JS"
    cp -R "$SHARED/interop" "$SHARED/peer" "$SHARED/profiles" "$JS"
    chmod -R u+w "$JS"
    (cd "$JS/interop" && npm ci --ignore-scripts --no-audit --no-fund)
    touch "$JS/ready"
  fi
  [ -x "$ACE" ] || go build -o "$ACE" ./cmd/ace
}

# in_private sets up folders that belong to this step alone.
in_private() {
  export ACE_HOME=$1/home XDG_CONFIG_HOME=$1/config XDG_DATA_HOME=$1/data XDG_RUNTIME_DIR=$1/runtime HOME=$1
  mkdir -p "$1" "$XDG_RUNTIME_DIR"
  chmod 0700 "$1" "$XDG_RUNTIME_DIR"
}

# start_relay DIR sets relay_url and relay_pid to those of a development relay.
start_relay() {
  in_private "$1"
  "$ACE" relay serve --dev >"$1/relay.out" 2>"$1/relay.err" &
  relay_pid=$!
  child "$relay_pid"
  local ready
  ready=$(line_within 30 "$1/relay.out" '"event" *: *"ready"' "$relay_pid") ||
    fail 'the relay did not get ready' "$1/relay.out" "$1/relay.err"
  relay_url=$(json_string url <<<"$ready")
  [ -n "$relay_url" ] || fail "no url in the relay's first line" "$1/relay.out"
  printf 'relay at %s\n' "$relay_url"
}

# stop_relay DIR ends the relay as an operator would and wants a clean exit.
stop_relay() {
  kill -TERM "$relay_pid"
  ends_within 20 "$relay_pid" || fail 'the relay did not end within 20 s of SIGTERM' "$1/relay.err"
  wait "$relay_pid" || fail "the relay ended with status $?" "$1/relay.err"
}

interop_matrix() {
  need_peers
  local log=$WORK/matrix.log
  (cd "$JS/interop" && node matrix.mjs --driver js='node driver.mjs' --driver ace="$ACE interop" --work "$WORK/matrix") >"$log" 2>&1 ||
    fail 'the matrix' "$log"
  tail -n 1 "$log"
  grep -q ' passed, 0 failed$' "$log" || fail 'the matrix printed no count' "$log"
}

# interop_conformance runs the whole suite. Its last section sends the relay
# SIGTERM and looks at the drain.
interop_conformance() {
  need_peers
  local dir=$WORK/conformance
  start_relay "$dir"
  (cd "$JS/peer" && node conformance.mjs --url "$relay_url" --fast --pid "$relay_pid") >"$dir/log" 2>&1 ||
    fail 'the conformance suite' "$dir/log" "$dir/relay.err"
  tail -n 1 "$dir/log"
  grep -q ' passed, 0 failed, ' "$dir/log" || fail 'the suite printed no count' "$dir/log"
  ends_within 20 "$relay_pid" || fail 'the relay did not end within 20 s of SIGTERM' "$dir/relay.err"
  wait "$relay_pid" || fail "the relay ended with status $?" "$dir/relay.err"
}

interop_talk() {
  need_peers
  local dir=$WORK/talk
  start_relay "$dir"
  (cd "$JS/peer" && node talk.mjs --url "$relay_url") >"$dir/log" 2>&1 || fail 'the conversation' "$dir/log" "$dir/relay.err"
  tail -n 1 "$dir/log"
  grep -q ' passed, 0 failed$' "$dir/log" || fail 'the conversation printed no count' "$dir/log"
  stop_relay "$dir"
}

# interop_bot is a newcomer's path, with a stranger's program at the other end.
interop_bot() {
  need_peers
  local dir=$WORK/bot bot peer
  start_relay "$dir"
  (cd "$JS/peer" && exec node talk.mjs --url "$relay_url" --bot --handle echo-bot) >"$dir/bot.out" 2>"$dir/bot.err" &
  bot=$!
  child "$bot"
  peer=$(line_within 30 "$dir/bot.out" '"event":"ready"' "$bot" | json_string aceId) ||
    fail 'the bot did not get ready' "$dir/bot.out" "$dir/bot.err"
  "$ACE" init --yes --relay dev
  "$ACE" send --connect "$peer" "hello" --wait || fail "send ended with status $?" "$dir/bot.out" "$dir/bot.err" "$dir/relay.err"
  wait_for_echo "$dir"
  stop_relay "$dir"
}

wait_for_echo() {
  local i
  for i in 1 2 3 4 5 6 7 8 9 10; do
    "$ACE" pull
    "$ACE" inbox list --json >"$1/inbox.json"
    if grep -q '"echo: hello"' "$1/inbox.json"; then
      printf 'the answer came with pull %d\n' "$i"
      return
    fi
    sleep 1
  done
  fail 'no answer from the bot' "$1/inbox.json" "$1/bot.out" "$1/bot.err"
}

# interop_converse is two endpoints through all of their life: contact, texts,
# new keys, blocks, lost state, a trade.
interop_converse() {
  need_peers
  local dir=$WORK/converse
  start_relay "$dir"
  node .ci/converse.mjs --url "$relay_url" --ace "$ACE" --peer "$JS/peer" >"$dir/log" 2>&1 ||
    fail 'the conversation with a JavaScript endpoint' "$dir/log" "$dir/relay.err"
  tail -n 1 "$dir/log"
  grep -q ' passed, 0 failed$' "$dir/log" || fail 'the conversation printed no count' "$dir/log"
  stop_relay "$dir"
}
