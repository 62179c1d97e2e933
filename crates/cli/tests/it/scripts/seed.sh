#!/bin/sh
# A caller's script, written from the first document's text alone: the seven lifecycle verbs, `--json | jq`, exit codes
# 0 to 6 and 8, the four recording rules. Only the command's name is replaced before it is run.
# Every step says what it saw; the first surprise ends it with 99.
set -u

fail() { echo "surprise: $*" >&2; exit 99; }

# expect CODE COMMAND...: runs it with its output in out and err, and compares the exit code.
expect() {
  wanted=$1; shift
  "$@" >out 2>err
  code=$?
  [ "$code" = "$wanted" ] || fail "exit $code instead of $wanted: $* :: $(cat out err)"
  if [ "$wanted" != 0 ] && [ ! -s out ]; then [ -s err ] || fail "nothing was said: $*"; fi
}

# value FILTER: a value of the last result.
value() { jq -er "$1 | if type == \"boolean\" then tostring else . end" out || fail "no $1 in $(cat out)"; }

# is FILTER TEXT
is() { seen=$(value "$1") || exit 99; [ "$seen" = "$2" ] || fail "$1 is '$seen', not '$2'"; }

# create: an id of ours, closed by default
expect 0 headspace create --workspace-id demo --json
is .status success
is .provenance.workspace_id demo
value .provenance.policy_summary | grep -q '^network=disabled, filesystem=(), memory=536870912, cpu=1.0, pids=128, storage=1073741824' ||
  fail "policy $(value .provenance.policy_summary)"
value .provenance.policy_summary | grep -q 'wall_clock=300, output_bytes=10485760, concurrency=1$' || fail "policy"
[ "$(jq -r 'keys_unsorted[0:9] | join(" ")' out)" = \
  "outcome_summary status key_findings evidence artifacts warnings resource_usage provenance attention" ] || fail "keys"
expect 1 headspace create --workspace-id demo
grep -q '^error: ' err || fail "error line"
grep -q '^hint: ' err || fail "hint line"
expect 1 headspace create --workspace-id demo --json
[ "$(jq -r .category err)" = user_error ] || fail "category"
[ "$(jq -r .code err)" = 1 ] || fail "code"

# an id that is minted
minted=$(headspace create --json | jq -r .provenance.workspace_id) || fail "minting"
expect 0 headspace destroy "$minted"

# put: a file, a directory, an existing destination
mkdir -p in/deep && printf 'hello\n' >in/a.txt && printf 'there\n' >in/deep/b.txt
expect 0 headspace put demo in/a.txt data/a.txt --json
is '.resource_usage.storage_bytes' 6
value '.provenance.inputs[0]' | grep -q '^data/a.txt (sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03, 6 bytes, from ' ||
  fail "ledger $(value '.provenance.inputs[0]')"
expect 0 headspace put demo in tree --json
is '.provenance.inputs | length' 2
expect 1 headspace put demo in/a.txt data/a.txt
expect 0 headspace put --overwrite demo in/a.txt data/a.txt

# run: inputs, a variable by name, an env-file, a declared artifact
export TOKEN=s3cret-of-the-caller
printf '# a comment\n\nREGION=north\n' >vars
expect 0 headspace run --json --declare report.json="pi to 10 digits, with a sanity check" \
  --input given.txt=in/a.txt --env TOKEN --env-file vars demo python -c "
import json, math, os
value = round(math.pi, 10)
check = abs(value - 3.1415926536) < 1e-9
with open('report.json', 'w') as f:
    json.dump({'pi': value, 'check_passed': check}, f)
assert len(os.environ['TOKEN']) == 20 and os.environ['REGION'] == 'north'
print(f'pi={value} check_passed={check}')
"
is .status success
is '.evidence[0].kind' excerpt
is '.evidence[0].truncated' false
value '.evidence[0].excerpt' | grep -q '^pi=3.1415926536 check_passed=True$' || fail "output"
is '.evidence[0].source' "$(value .provenance.job_id)"
value '.attention[]' | grep -q "artifact 'report.json' is declared but not exported" || fail "attention"
job=$(value .provenance.job_id)
case $job in job-????????????) ;; *) fail "job id $job" ;; esac
grep -q s3cret out && fail "a value was recorded"
value '.provenance.inputs[]' | grep '^env TOKEN ' | grep -q 'name only' || fail "env line"
expect 1 headspace run --env ABSENT_VARIABLE demo true
expect 1 headspace run --env TOKEN=typed demo true
grep -q typed err && fail "a typed value was echoed"
printf 'not an assignment s3cret\n' >bad
expect 1 headspace run --env-file bad demo true
grep -q 'line 1' err || fail "line number"
grep -q s3cret err && fail "the line was quoted"
expect 1 headspace run --declare report.json=again demo true

# failures are told apart by the exit code alone
expect 6 headspace run demo python -c 'raise SystemExit(7)'
expect 6 headspace run --json demo no-such-command-at-all
is .status failure
value '.key_findings[]' | grep -q '127' || fail "127"
expect 0 headspace create --workspace-id quick --wall-clock-seconds 1
expect 4 headspace run --json quick sleep 30
is .status timeout
expect 0 headspace create --workspace-id small --memory-bytes 67108864
expect 8 headspace run --json small python -c "x = bytearray(256 * 1024 * 1024); print(len(x))"
is .status resource_exhausted
expect 0 headspace create --workspace-id tight --storage-bytes 4
expect 3 headspace put tight in/a.txt a.txt
expect 1 headspace run unknown-workspace true
expect 1 headspace run --no-such-flag demo true

# stop: a preview changes nothing, --apply ends it, and both read cancelled
headspace run --json demo sleep 60 >job.out 2>job.err &
runner=$!
tries=0
until headspace inspect demo --json | jq -e '.key_findings | index("lifecycle state: running")' >/dev/null; do
  tries=$((tries + 1)); [ "$tries" -lt 100 ] || fail "the job never ran: $(cat job.out job.err)"
  sleep 0.1
done
expect 0 headspace stop demo --json
is .status success
kill -0 "$runner" 2>/dev/null || fail "the preview ended the job"
expect 5 headspace stop demo --apply --json
is .status cancelled
wait "$runner"; code=$?
[ "$code" = 5 ] || fail "the run exits $code"
[ "$(jq -r .status job.out)" = cancelled ] || fail "the run's own status"
expect 0 headspace stop demo --apply

# inspect: state, cost, logs in full
expect 0 headspace inspect demo --json
value '.key_findings[]' | grep -q '^lifecycle state: ready$' || fail "state"
expect 0 headspace inspect demo --logs --json
is .workspace_id demo
value '.jobs[] | select(.output | startswith("pi=")) | .status' | grep -q success || fail "the log"
expect 0 headspace inspect "$job" --logs --json
is '.jobs | length' 1
is '.jobs[0].exit_status' 0
expect 0 headspace inspect "$job" --logs
grep -q 'check_passed=True' out || fail "log text"

# export: verified, durable; then the workspace may go
expect 1 headspace destroy demo --json
[ "$(jq -r .category err)" = user_error ] || fail "category"
expect 1 headspace export demo undeclared --to ./x
expect 2 headspace export demo report.json --to ./report.json --expect-sha256 \
  0000000000000000000000000000000000000000000000000000000000000000
[ ! -e report.json ] || fail "published in spite of the digest"
expect 0 headspace export demo report.json --to ./report.json --json
digest=$(value '.artifacts[0].digest')
[ "$(sha256sum <report.json | cut -d' ' -f1)" = "$digest" ] || fail "digest"
is '.artifacts[0].size_bytes' 42
is '.artifacts[0].reference' ./report.json
[ "$(cat report.json)" = '{"pi": 3.1415926536, "check_passed": true}' ] || fail "contents"
expect 0 headspace destroy demo --json
value '.key_findings[]' | grep -q 'lifecycle path: cancelled -> destroyed' || fail "path"

# an artifact that was never exported is given up on purpose only
expect 0 headspace create --workspace-id other
expect 0 headspace run --declare gone.txt="to be given up" other sh -c 'echo x > gone.txt'
expect 1 headspace destroy other
expect 0 headspace destroy --force other --json
value '.warnings[]' | grep -q 1 || fail "no warning"
for workspace in quick small tight; do expect 0 headspace destroy "$workspace"; done

# the text form, and its bound
expect 0 headspace create --workspace-id bounded
expect 0 headspace run bounded python -c "print('x' * 100000)"
[ "$(wc -c <out)" -le 8192 ] || fail "$(wc -c <out) bytes"
grep -q '^## Outcome summary$' out || fail "sections"
grep -q '\[truncated: ' out || fail "marker"
expect 0 headspace destroy bounded
expect 0 headspace whoami --json
is '.nick | type' string
expect 0 headspace learn --json
is '.json_support' true
expect 0 headspace explain create
expect 0 headspace overview --json
expect 0 headspace cli overview --json
expect 0 headspace doctor --json
is .healthy true
echo "every step was as written"
