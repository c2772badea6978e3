#!/bin/sh
# The command `backhaul` where it is a service: as the daemon's user, with its secrets.
# `backhaul @NAME ...` is for the instance backhaul@NAME. Decisions keep who typed them.
# Completion is asked for by variables of the shell, and set up in one's own home.
[ -z "${_BACKHAUL_COMPLETE-}" ] || exec /opt/backhaul/bin/backhaul "$@"
case ${1-} in
  --install-completion* | --show-completion*) exec /opt/backhaul/bin/backhaul "$@" ;;
  @?*) name=${1#@} secrets=/etc/backhaul/secrets-${1#@}; shift ;;
  *) name=backhaul secrets=/etc/backhaul/secrets ;;
esac
exec systemd-run --quiet --pipe --wait --collect --service-type=exec \
  --property=User=backhaul --property=UMask=0077 \
  --property=LoadCredential=stores:"$secrets/stores" \
  --property=LoadCredential=connectors:"$secrets/connectors" \
  --property=LoadCredential=alerts:"$secrets/alerts" \
  --setenv=BACKHAUL_CONFIG="/etc/backhaul/$name.toml" \
  --setenv=SUDO_USER="${SUDO_USER:-$(id -un)}" \
  --working-directory=/var/lib/backhaul \
  /opt/backhaul/bin/backhaul "$@"
