# The steps that need nothing but Go.

STATICCHECK=v0.8.2
FUZZ_SECONDS=${FUZZ_SECONDS:-1}
CRASH_KILLS=60 # of a round
SIM_FIRST=1000 # the first of the simulated worlds, behind those of the tests
SIM_SEEDS=2000
FUZZ_TOTAL=120 # seconds for all targets together, building apart

check_format() {
  local files
  files=$(gofmt -l .)
  [ -z "$files" ] || fail "not formatted: $files"
}

check_modules() {
  go mod tidy -diff
  go mod verify
}

cross_build() {
  GOOS=${1%/*} GOARCH=${1#*/} go build -o "$WORK/cross/ace" ./cmd/ace
}

# race_tests leaves out the packages that only start the program, which is built
# without the detector, and the simulation, in which one thing happens at a time.
# Programs that tests start are not to wait a second each at their end, as the
# detector has them do.
# It leaves SQLite's own code as it is: the detector follows memory of Go alone, of
# which that has none, and made it five times slower. A connection that two
# goroutines use at a time is found all the same, by what modernc.org/libc keeps
# for each. Nor does it follow scrypt and circl, whose work is one goroutine's own
# and nothing but reading and writing memory, and the allocator of C memory, which
# stands behind one lock; and the pointers of libc are not checked.
race_tests() {
  command -v "$(go env CC)" >/dev/null || skip "no C compiler, which the race detector needs"
  local packages
  packages=$(go list ./... | grep -v -e /internal/crash -e /internal/sim)
  local unfollowed=() name
  for name in modernc.org/sqlite/lib modernc.org/memory golang.org/x/crypto/scrypt 'github.com/cloudflare/circl/...'; do
    unfollowed+=("-gcflags=$name=-race=false")
  done
  # shellcheck disable=SC2086 # one argument each
  GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -race "${unfollowed[@]}" -gcflags=modernc.org/libc=-d=checkptr=0 -short -shuffle=on -timeout 15m $packages
}

# crash_round is a short round of the crash harness; make crash KILLS=10000 is
# the long one.
crash_round() {
  go vet -tags failpoint ./internal/failpoint ./core/... ./relaysvc/... ./cmd/ace
  go test ./internal/crash -count=1 -run 'TestCrash$' -kills "$CRASH_KILLS" -timeout 5m -v
}

# soak_minute is a short soak of each kind, and the stream of a listener cut at
# every offset; make soak MINUTES=10 and make soak-node MINUTES=10 are longer ones.
# They wait for most of the time: simulated worlds are played meanwhile.
soak_minute() {
  local worlds=$WORK/sim.log playing
  go test ./internal/sim -count=1 -run 'TestSim$' -seed "$SIM_FIRST" -seeds "$SIM_SEEDS" -timeout 30m -v >"$worlds" 2>&1 &
  playing=$!
  child "$playing"
  go test ./internal/crash -count=1 -run 'TestSoak$|TestNodeSoak$|TestListenCut$' -minutes 1 -stride 50 -timeout 15m -v
  wait "$playing" || fail 'the simulated worlds' "$worlds"
  tail -n 20 "$worlds"
}

# fuzz_all runs every fuzz target for a short while.
fuzz_all() {
  local listed targets name pkg each
  listed=$(go test -list '^Fuzz' ./...)
  targets=$(awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' <<<"$listed")
  [ -n "$targets" ] || fail 'no fuzz target found'
  each=$((FUZZ_TOTAL / $(wc -l <<<"$targets")))
  [ $each -le "$FUZZ_SECONDS" ] || each=$FUZZ_SECONDS
  [ $each -ge 1 ] || each=1
  while read -r pkg name; do
    fuzz_one "$pkg" "$name" "$each"
  done <<<"$targets"
}

fuzz_one() {
  local log=$WORK/fuzz.log
  printf '%s %s: %d s\n' "$1" "$2" "$3"
  if fuzz_target "$@" >"$log" 2>&1; then return; fi
  # Go's fuzzer now and then reports its own deadline as a failure: only that is
  # tried again.
  grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log" || fail "$2 in $1" "$log"
  fuzz_target "$@" >"$log" 2>&1 || fail "$2 in $1" "$log"
}

fuzz_target() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$3s" -fuzzminimizetime 1x -parallel 2 "$1" </dev/null
}

# run_demo is the first command of README.md.
run_demo() {
  XDG_CONFIG_HOME=$WORK/demo XDG_DATA_HOME=$WORK/demo \
    go run ./cmd/ace demo | tee "$WORK/demo.out"
  grep -qi 'receipt' "$WORK/demo.out" || fail 'the demo printed no receipt'
}

tree_state() { git status --porcelain 2>/dev/null || true; }

same_tree() {
  [ -z "$1" ] || skip 'the tree had changes before'
  local now
  now=$(tree_state)
  [ -z "$now" ] || fail "the run changed the tree: $now"
}
