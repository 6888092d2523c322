#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the libcurl that the release build is linked with: Debian's source package, patches
# included, as a static library with OpenSSL and nghttp2 and without the protocols, login methods and
# stores that we do not use (docs/adr/0030). Says nothing where it is there already.
#
#   hack/images/curl.sh            builds it if need be; about a minute on two idle cores
#   hack/images/curl.sh --folder   prints where it is, or would be: lib/libcurl.a and, in VERSION,
#                                  the version of the source package
#
# The version is that of the installed libcurl4-openssl-dev, whose headers we compile with; where the
# archives have only a newer one, that. An update of the package therefore makes a new folder, below
# ${CLEAVE_CACHE:-~/.cache/cleave}, named after the version and the flags. The source comes from
# the archives that apt has for binaries, with apt's checks of their signatures; the machine's own
# lists and configuration are not changed, and root is not needed.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../kube/lib.sh"

# What is left: http and https, HTTP/2, proxies, IPv6, names that are resolved in a thread (or a
# time-out could not end the wait for them). Verbose strings stay: they are the errors' texts.
CONFIGURE=(
    --disable-shared --enable-static --disable-dependency-tracking --disable-option-checking
    --with-openssl --with-nghttp2 --enable-threaded-resolver --enable-ipv6 --enable-proxy
    --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --without-ca-path
    --without-zlib --without-brotli --without-zstd --without-libpsl --without-libidn2 --without-librtmp
    --without-libssh2 --without-gssapi --disable-ares
    --disable-dict --disable-file --disable-ftp --disable-gopher --disable-imap --disable-ldap
    --disable-ldaps --disable-mqtt --disable-pop3 --disable-rtsp --disable-smb --disable-smtp
    --disable-telnet --disable-tftp --disable-websockets
    --disable-alt-svc --disable-cookies --disable-crypto-auth --disable-dateparse --disable-doh
    --disable-get-easy-options --disable-hsts --disable-libcurl-option --disable-manual --disable-mime
    --disable-netrc --disable-ntlm --disable-ntlm-wb --disable-openssl-auto-load-config
    --disable-progress-meter --disable-tls-srp --disable-unix-sockets
)
# As ours (the Makefile's FLAGS_release), and no path of this machine in it.
FLAGS="-O2 -g -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection"
FLAGS+=" -fPIE -ftrivial-auto-var-init=zero -ffunction-sections -fdata-sections"

installed_version() { dpkg-query -W -f '${Version}' libcurl4-openssl-dev 2>/dev/null; }

curl_folder() {
    local hash
    hash=$({ installed_version && echo "${CONFIGURE[*]} $FLAGS"; } | sha256sum)
    printf '%s/curl-%s\n' "$(cache_dir)" "${hash:0:12}"
}

# Debian's archives that apt knows, as lines for sources of source packages. Their keys are in the
# keyring of debian-archive-keyring, whatever else this machine trusts.
source_lines() {
    # shellcheck disable=SC2016 # apt-get fills these in
    apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)' 'Created-By: Packages' |
        awk -F'|' '$1 == "Debian" && !seen[$0]++ {
            printf "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s %s\n", $2, $3, $4}'
}

apt_here() { # FOLDER ARGUMENTS...: apt-get with lists and sources of its own
    local apt=$1
    shift
    apt-get -q -o "Dir::Etc::SourceList=$apt/sources.list" -o "Dir::Etc::SourceParts=/dev/null" \
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=" \
        -o "Acquire::Retries=3" -o "APT::Get::Only-Source=true" "$@"
}

fetch() { # FOLDER: leaves FOLDER/src/curl-*/
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/src"
    source_lines >"$1/sources.list"
    [ -s "$1/sources.list" ] || die "apt has no lists of Debian's archives here; apt-get update gets them"
    apt_here "$1" update || return
    cd "$1/src" || return
    apt_here "$1" source "curl=$(installed_version)" || {
        say "the archives have no source of curl $(installed_version) any more; taking their newest"
        apt_here "$1" source curl
    }
}

build() { # FOLDER NEW
    local source
    source=$(echo "$1"/src/curl-*/)
    cd "$source" || return
    sed -n '1s/^curl (\(.*\)) .*/\1/p' debian/changelog >"$2/VERSION"
    # Patches touch what configure is made from; configure is upstream's, and newer than all of it.
    find . -exec touch -r debian/changelog {} + || return
    ./configure "${CONFIGURE[@]}" CFLAGS="$FLAGS -ffile-prefix-map=$PWD=curl" || return
    make -C lib -j"$(nproc)" || return
    mkdir -p "$2/lib" "$2/doc" || return
    cp lib/.libs/libcurl.a "$2/lib/" || return
    cp debian/copyright "$2/doc/"
}

make_library() { fetch "$work" && build "$work" "$new"; }

folder=$(curl_folder)
case "${1:-}" in
--folder)
    printf '%s\n' "$folder"
    exit 0
    ;;
*) no_arguments "$@" ;;
esac

[ ! -f "$folder/lib/libcurl.a" ] || exit 0
[ -n "$(installed_version)" ] || die "libcurl4-openssl-dev is not installed; hack/install-deps.sh installs it"
mkdir -p "$(cache_dir)"
exec 9>"$(cache_dir)/curl.lock"
flock -n 9 || {
    say "libcurl: another build is running; waiting for that one"
    flock 9
    [ ! -f "$folder/lib/libcurl.a" ] || exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new=$(cache_dir)/curl.new
log=$(cache_dir)/curl-build.log
rm -rf "$new"
mkdir -p "$new"
say "libcurl: building $(installed_version) from Debian's source, once; into $folder"
progress "building" "$log" '' make_library || die "the whole output is in $log"
rm -rf "$folder"
mv -T "$new" "$folder"
