#!/bin/sh
# Makes the namespace, in which closed runs are kept for 30 days; one that is there stays as it is. Repeating is safe. The four
# search attributes are added by the worker.
set -eu
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 720h
