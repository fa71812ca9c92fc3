#!/usr/bin/env bash
# The JSON-Schema-Test-Suite, for the tests of argument validation. Prints the folder it is in, nothing else.
#
# It comes in the source package of Python's `jsonschema`, pinned by version and checksum; `pip` fetches it (Debian's package
# of pip is installed where there is none). It is kept under `target/`, so it is fetched once for each clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=4.25.1
sum=e4a9655ce0da0c0b67a085847e00a3a51449e1157f4f75e9fb5aa545e122eb85
folder="$PWD/target/jsonschema-suite-$version"

fail() {
    echo "error: .ci/jsonschema.sh: $*" >&2
    exit 1
}

if [ ! -d "$folder" ]; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
        echo "installing pip from Debian's package" >&2
        sudo=()
        if [ "$(id -u)" -ne 0 ]; then sudo=(sudo -n); fi
        "${sudo[@]}" apt-get update -qq >&2 &&
            "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >&2 ||
            fail "no pip here, and none could be installed"
    fi
    mkdir -p target
    work=$(mktemp -d target/jsonschema-suite.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary jsonschema --dest "$work" \
        "jsonschema==$version" >&2 || fail "the package cannot be fetched"
    echo "$sum  $work/jsonschema-$version.tar.gz" | sha256sum --check --quiet >&2 || fail "the package is another one"
    tar -xzf "$work/jsonschema-$version.tar.gz" -C "$work" "jsonschema-$version/json"
    mv "$work/jsonschema-$version/json" "$folder"
fi
echo "$folder"
