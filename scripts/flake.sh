#!/usr/bin/env bash
# Runs test files ten times and says how often each run failed: `npm run flake -- test/e2e/local.test.ts`.
# RUNS=3 runs them three times. Exits 1 when a run failed.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-10}
if (($# == 0)); then
  echo 'usage: scripts/flake.sh TEST_FILE...' >&2
  exit 2
fi

output=$(mktemp -d)
failed=0
for ((run = 1; run <= runs; run++)); do
  begin=$SECONDS
  if npx jest --runTestsByPath "$@" >"$output/$run.log" 2>&1; then
    echo "run $run of $runs: passed in $((SECONDS - begin)) s"
  else
    failed=$((failed + 1))
    echo "run $run of $runs: FAILED in $((SECONDS - begin)) s, see $output/$run.log"
    grep -E '^\s+(●|✕) ' "$output/$run.log" | sort -u || true
  fi
done

echo "$((runs - failed)) of $runs runs passed"
if ((failed > 0)); then exit 1; fi
rm -rf "$output"
