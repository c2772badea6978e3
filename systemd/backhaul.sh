#!/bin/sh
# The command `backhaul` where it is a service: as the daemon's user, with its secrets.
exec systemd-run --quiet --pipe --wait --collect --service-type=exec \
  --property=User=backhaul --property=UMask=0077 \
  --property=LoadCredential=stores:/etc/backhaul/secrets/stores \
  --property=LoadCredential=connectors:/etc/backhaul/secrets/connectors \
  --working-directory=/var/lib/backhaul \
  /opt/backhaul/bin/backhaul "$@"
