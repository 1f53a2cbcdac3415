#!/bin/sh
# Runs once, when the database's volume is new: the engine's own user and databases, and the extension for vectors.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$TEMPORAL_POSTGRES_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
create extension if not exists vector;
create role temporal login password :'password';
create database temporal owner temporal;
create database temporal_visibility owner temporal;
SQL
