#!/usr/bin/env bash
# Makes the container image of our Debian packages, without Docker: build/image/simm.oci.tar, an
# archive that skopeo and podman take. config/kubernetes/KUBERNETES.md says how to use it.
#
#   scripts/image.sh [OUTPUT]
#
# Takes build/packages/*.deb, and makes them first when they are not there. The same packages and
# the same Debian give the same digest, whenever and wherever: all times are those of the last
# commit (SOURCE_DATE_EPOCH). Needs root, and the mirror that apt uses here.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly output=${1:-build/image/simm.oci.tar}
# The chart runs everything as this user (config/kubernetes/simm/templates/_helpers.tpl).
readonly id=10001
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# shellcheck disable=SC1091
. /etc/os-release
suite=$VERSION_CODENAME
version=$(sed -n 's/.*SIMM_VERSION_STRING "\(.*\)".*/\1/p' ipc/include/simm/version.h)
[ "$(id -u)" = 0 ] || { echo "image: a root file system takes root: sudo $0" >&2; exit 1; }
scripts/install_packages.sh
ls build/packages/simm_*.deb >/dev/null 2>&1 || scripts/package.sh
ls build/packages/simm-kubernetes_*.deb >/dev/null 2>&1 ||
  { echo "image: no simm-kubernetes: it takes gRPC, which CMake did not find" >&2; exit 1; }
mkdir -p "$(dirname "$output")"
work=$(mktemp -d -p "$PWD/build")
trap 'rm -rf --one-file-system "$work"' EXIT

mkdir "$work/packages"
cp build/packages/{simm,simm-kubernetes,libsimm0}_*.deb "$work/packages"
(cd "$work/packages" && dpkg-scanpackages . >Packages 2>/dev/null)
{
  scripts/debian_sources.sh
  echo "deb [trusted=yes] copy://$work/packages ./"
} >"$work/sources"

# The user is there before the package that would make one with another number. Afterwards goes what
# a container does not need, and what tells when this was made.
add_user="
echo 'simm:x:$id:' >>\"\$1/etc/group\"
echo 'simm:!::' >>\"\$1/etc/gshadow\"
echo 'simm:x:$id:$id:SiMM daemons:/:/usr/sbin/nologin' >>\"\$1/etc/passwd\"
echo 'simm:!*:$((SOURCE_DATE_EPOCH / 86400))::::::' >>\"\$1/etc/shadow\""
# shellcheck disable=SC2016  # the hook's shell expands it
clean='cd "$1"
rm -rf var/log/* var/cache/* var/lib/apt/* tmp/* run/* etc/apt/sources.list
rm -f var/lib/dpkg/*-old etc/*- etc/machine-id etc/hostname etc/resolv.conf'
mmdebstrap --quiet --mode=root --format=tar --variant=essential \
  --include="usr-is-merged,simm,simm-kubernetes,libsimm0,ibverbs-providers" \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/info/*' \
  --essential-hook="$add_user" --customize-hook="$clean" \
  "$suite" "$work/layer.tar" - <"$work/sources" >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }

created=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
image=$work/oci:$version
umoci init --layout "$work/oci"
umoci new --image "$image"
umoci raw add-layer --image "$image" --history.created "$created" \
  --history.created_by "scripts/image.sh" "$work/layer.tar"
umoci config --image "$image" --created "$created" --history.created "$created" \
  --architecture "$(dpkg --print-architecture)" --os linux --config.user "$id:$id" \
  --clear=config.entrypoint --config.cmd simmd --config.cmd all --config.stopsignal SIGTERM \
  --config.label "org.opencontainers.image.title=simm" \
  --config.label "org.opencontainers.image.version=$version" \
  --config.label "org.opencontainers.image.created=$created"
umoci gc --layout "$work/oci"
# The name under which the archive is loaded; umoci knows tags only.
digest=$(python3 - "$work/oci/index.json" "simm:$version" <<'EOF'
import json, sys
with open(sys.argv[1], "r+", encoding="utf-8") as file:
    index = json.load(file)
    index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] = sys.argv[2]
    file.seek(0)
    json.dump(index, file)
    file.truncate()
print(index["manifests"][0]["digest"])
EOF
)
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
  -C "$work/oci" -cf "$work/archive.tar" blobs index.json oci-layout
unpacked=$(stat -c %s "$work/layer.tar")
mv "$work/archive.tar" "$output"
echo "$output: $version, $digest, $(($(stat -c %s "$output") / 1000000)) MB," \
  "$((unpacked / 1000000)) MB unpacked"
