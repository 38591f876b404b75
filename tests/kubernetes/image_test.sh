#!/usr/bin/env bash
# The container image of build/packages: made twice with one digest, small, run as the chart says;
# and the same by config/kubernetes/Containerfile.
#
#   image_test.sh
#
# Needs root, the network, and a machine that can run containers. All is left in build/image.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly megabytes_max=120
step() { printf 'image: %s (%d s)\n' "$1" "$SECONDS"; }

if [ "$(id -u)" != 0 ]; then
  echo "image: SKIPPED, a root file system takes root" >&2
  exit 0
fi
step "the image"
made=$(scripts/image.sh build/image/simm.oci.tar)
echo "$made"
megabytes=$(sed -n 's/.* \([0-9]*\) MB unpacked$/\1/p' <<<"$made")
[ "$megabytes" -le "$megabytes_max" ] ||
  { echo "image: $megabytes MB, at most $megabytes_max" >&2; exit 1; }
step "packages and image, once more"
scripts/package.sh >/dev/null
scripts/image.sh build/image/second.oci.tar
cmp build/image/simm.oci.tar build/image/second.oci.tar ||
  { echo "image: two builds of one commit differ" >&2; exit 1; }
rm build/image/second.oci.tar

step "pods of the chart"
status=0
/usr/bin/python3 -B tests/kubernetes/image_test.py --scratch build/image build/image/simm.oci.tar ||
  status=$?
[ "$status" != 77 ] || exit 0
[ "$status" = 0 ] || exit "$status"

step "config/kubernetes/Containerfile, upon a bare system as its base"
# shellcheck disable=SC1091
. /etc/os-release
store=$PWD/build/image/buildah
rm -rf --one-file-system "$store"
buildah=(buildah --root "$store/store" --runroot "$store/run" --storage-driver vfs)
mkdir -p "$store"
scripts/debian_sources.sh |
  mmdebstrap --quiet --format=tar --variant=apt --dpkgopt=force-unsafe-io \
    "$VERSION_CODENAME" "$store/base.tar" -
container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add --quiet "$container" "$store/base.tar" / >/dev/null
"${buildah[@]}" commit --quiet "$container" base >/dev/null
"${buildah[@]}" bud --quiet --isolation chroot --network host --build-arg BASE=localhost/base \
  --tag simm:containerfile --file config/kubernetes/Containerfile build/packages >/dev/null
container=$("${buildah[@]}" from localhost/simm:containerfile)
said=$("${buildah[@]}" run --isolation chroot "$container" -- sh -c 'id -u; id -g; simmd --version')
version=$(sed -n 's/.*SIMM_VERSION_STRING "\(.*\)".*/\1/p' ipc/include/simm/version.h)
[ "$said" = "$(printf '10001\n10001\nsimmd %s' "$version")" ] ||
  { echo "image: the image of the Containerfile says: $said" >&2; exit 1; }
rm -rf --one-file-system "$store"
step "passed"
