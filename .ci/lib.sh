# Steps: each runs in a shell of its own, is timed, and is counted as passed,
# failed or skipped. A failed step does not keep the others from running.

SKIP_STATUS=75
passed=0
failed=()
skipped=()

# step NAME COMMAND… runs one step. What a step starts, it ends: its shell kills
# the children it has noted with "child" when it leaves.
step() {
  local name=$1 start=$SECONDS status
  shift
  printf '\n=== %s\n' "$name"
  rm -f "$WORK/skip"
  # -e is lost in any command whose status is tested, hence the detour.
  set +e
  (
    set -e
    children=()
    trap end_children EXIT
    "$@"
  )
  status=$?
  set -e
  case $status in
    0) passed=$((passed + 1)); printf -- '--- passed: %s (%d s)\n' "$name" $((SECONDS - start)) ;;
    "$SKIP_STATUS")
      skipped+=("$name: $(cat "$WORK/skip" 2>/dev/null)")
      frame "SKIPPED: ${skipped[-1]}"
      ;;
    *) failed+=("$name"); printf -- '--- FAILED: %s (%d s, status %d)\n' "$name" $((SECONDS - start)) "$status" ;;
  esac
}

# skip REASON ends the running step as skipped.
skip() {
  printf '%s' "$1" >"$WORK/skip"
  exit "$SKIP_STATUS"
}

# fail REASON [FILE…] ends the running step and shows the end of some logs.
fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  local file
  for file in "$@"; do
    printf -- '--- last lines of %s\n' "$(basename "$file")" >&2
    tail -n 30 "$file" >&2 || true
  done
  exit 1
}

child() { children+=("$1"); }

end_children() {
  local status=$? pid
  for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${children[@]}"; do
    ends_within 10 "$pid" || kill -KILL "$pid" 2>/dev/null || true
  done
  exit "$status"
}

# ends_within SECONDS PID waits for a process to be gone.
ends_within() {
  local until=$((SECONDS + $1))
  while kill -0 "$2" 2>/dev/null; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.1
  done
}

# line_within SECONDS FILE PATTERN PID waits for a line in what a process
# writes and prints the first that matches.
line_within() {
  local until=$((SECONDS + $1))
  while ! grep -m 1 -e "$3" "$2" 2>/dev/null; do
    kill -0 "$4" 2>/dev/null || return 1
    [ $SECONDS -lt $until ] || return 1
    sleep 0.1
  done
}

# json_string NAME prints the value of a string member of the JSON line on stdin.
json_string() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" | head -n 1; }

frame() {
  local bar
  bar=$(printf '%*s' $((${#1} + 4)) '' | tr ' ' '#')
  printf '\n%s\n# %s #\n%s\n' "$bar" "$1" "$bar"
}

# summary ends the run; its last line is the count.
summary() {
  local what
  for what in "${skipped[@]}"; do frame "SKIPPED: $what"; done
  [ ${#failed[@]} -eq 0 ] || printf '\n'
  for what in "${failed[@]}"; do printf 'FAILED: %s\n' "$what"; done
  printf '\n%d s in all\n' "$SECONDS"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "${#failed[@]}" "${#skipped[@]}"
  [ ${#failed[@]} -eq 0 ]
}
