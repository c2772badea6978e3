#!/bin/sh
# Runs `backhaul` as the service's user, with its secrets. `backhaul @NAME ...`
# is for the service backhaul@NAME. SUDO_USER records who typed a command.
# The shell requests completion through variables; it is set up in the user's own home.
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
