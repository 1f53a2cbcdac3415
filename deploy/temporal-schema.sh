#!/bin/sh
# Brings the engine's two databases to the schema of this release of the engine. Repeating is safe; runs before each start.
set -eu
for name in temporal temporal_visibility; do
  folder=temporal
  [ "$name" = temporal ] || folder=visibility
  set -- --plugin postgres12 --endpoint postgres --port 5432 --user temporal --database "$name"
  temporal-sql-tool "$@" setup-schema --version 0.0
  temporal-sql-tool "$@" update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$folder/versioned"
done
