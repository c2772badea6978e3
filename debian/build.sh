#!/bin/sh
# Builds dist/backhaul_VERSION_ARCHITECTURE.deb, for the Debian on which it runs:
#   sh debian/build.sh
# It needs python3-venv and a package index (or PIP_NO_INDEX and PIP_FIND_LINKS).
# The package contains an environment in /opt/backhaul, with all extras, and the service.
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
architecture=$(dpkg --print-architecture)
python=$(/usr/bin/python3 -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
next=${python%.*}.$((${python#*.} + 1))
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
opt=$tree/opt/backhaul

/usr/bin/python3 -m venv "$opt"
"$opt/bin/pip" install --quiet --require-hashes --requirement requirements.lock
"$opt/bin/pip" install --quiet --no-deps .
"$opt/bin/pip" uninstall --quiet --yes pip setuptools
# The package is installed elsewhere than it is built.
grep -rlIF "$tree" "$opt" | xargs sed -i "s#$tree##g"
find "$opt" -name __pycache__ -prune -exec rm -rf {} +

install -D -m 755 systemd/backhaul.sh "$tree/usr/bin/backhaul"
install -D -m 644 systemd/backhaul.sysusers.conf "$tree/usr/lib/sysusers.d/backhaul.conf"
install -D -m 644 systemd/backhaul.tmpfiles.conf "$tree/usr/lib/tmpfiles.d/backhaul.conf"
mkdir -p "$tree/usr/lib/systemd/system"
install -m 644 systemd/*.service systemd/*.socket "$tree/usr/lib/systemd/system/"
install -D -m 644 config/backhaul.example.toml \
  "$tree/usr/share/doc/backhaul/backhaul.example.toml"
install -m 644 LICENSE "$tree/usr/share/doc/backhaul/copyright"

mkdir "$tree/DEBIAN"
install -m 755 debian/postinst debian/prerm debian/postrm "$tree/DEBIAN/"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: backhaul
Version: $version
Architecture: $architecture
Maintainer: The Backhaul maintainers <maintainers@backhaul.example>
Depends: python3 (>= $python), python3 (<< $next), systemd (>= 250)
Installed-Size: $(du -sk "$tree" | cut -f1)
Section: net
Priority: optional
Description: sync daemon between an online store and a back office
 Backhaul receives the webhooks of an online store, keeps a local copy of its orders
 and stock, and makes the changes that scanners, couriers and ERPs report. It includes
 a reference server of the store platform.
CONTROL

mkdir -p dist
package=dist/backhaul_${version}_$architecture.deb
dpkg-deb --build --root-owner-group "$tree" "$package" >/dev/null
echo "$package"
