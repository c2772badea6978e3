#!/bin/sh
# Creates Backhaul's role and database. Patroni runs this once, in a new cluster, and
# gives the address of the server.
set -eu
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 \
  --set=password="$(cat "${SECRETS:-/run/secrets}/postgres_backhaul")" \
  --dbname="$1" <<'SQL'
CREATE ROLE backhaul LOGIN PASSWORD :'password';
-- To see whether a replica confirms commits.
GRANT pg_monitor TO backhaul;
CREATE DATABASE backhaul OWNER backhaul ENCODING 'UTF8' TEMPLATE template0;
SQL
