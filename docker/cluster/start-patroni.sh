#!/bin/sh
# Starts Patroni with the passwords that Docker provides as files.
set -eu
PATRONI_SUPERUSER_PASSWORD=$(cat /run/secrets/postgres_superuser)
PATRONI_REPLICATION_PASSWORD=$(cat /run/secrets/postgres_replication)
export PATRONI_SUPERUSER_PASSWORD PATRONI_REPLICATION_PASSWORD
exec patroni /etc/patroni.yml
