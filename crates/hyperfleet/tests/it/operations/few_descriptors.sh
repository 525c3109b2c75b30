#!/bin/sh
# Runs the program as a system does that gives it few file descriptors, of which it may take more.
ulimit -Sn 64
exec "$BINARY" "$@"
