#!/usr/bin/env bash
# Builds everything into build/: the program, the WebAssembly module and the page.
#
#   ./build.sh                install what is missing, build, show the default estimate and where the page is
#   ./build.sh tools          only install what building needs
#   ./build.sh test-tools     only install what building and testing need
#   ./build.sh cjson          only fetch cJSON into build/cjson
#
# Tools are installed on Debian 12 alone (as root, or through sudo). Elsewhere this script names what is missing and stops.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '%s\n' "$*"; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

debian12() { ( . /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ] ); }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else return 1; fi
}

# ---------------------------------------------------------------------------------------------------------------- tools
# A line a tool: how one sees that it is there, Debian's packages, and what it is for.

has_cc()       { printf '#include <stdio.h>\nint main(void){return 0;}' | gcc -x c -o /dev/null - ; }
has_node()     { [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ]; }
has_fuzzer()   { printf '#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char*d,size_t n){(void)d;(void)n;return 0;}' |
                 clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - ; }
has_webkit()   { command -v WebKitWebDriver && command -v xvfb-run && command -v xauth; }
has_cjk()      { [ -n "$(fc-list :lang=zh-cn)" ]; }
has_source()   { [ -f build/cjson/cJSON.c ] || command -v dpkg-source; }
has_certs()    { [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] || [ -s /etc/ssl/cert.pem ]; }

build_tools='
has_cc               gcc libc6-dev        the C compiler
make --version       make                 builds
python3 --version    python3              bundles the presets
emcc --version       emscripten           compiles to WebAssembly
has_node             nodejs               bundles the page; 18 or newer
npm --version        npm                  fetches what the page is bundled with
has_certs            ca-certificates      lets npm check whom it talks to
has_source           dpkg-dev             unpacks the source package of cJSON'

test_tools='
clang --version      clang                the second compiler
has_fuzzer           libclang-rt-14-dev   sanitizers and the fuzzer
chromium --version   chromium             opens the page
firefox-esr --version  firefox-esr        opens the page
has_webkit           webkit2gtk-driver xvfb xauth  opens the page, as Safari does
fc-list --version    fontconfig           finds fonts
has_cjk              fonts-noto-cjk       Chinese letters'

missing() { # prints "packages<TAB>what for" for each tool that is not there
    local line check packages why
    while IFS= read -r line; do
        [ -n "$line" ] || continue
        check=$(sed -E 's/ {2,}.*//' <<<"$line")
        packages=$(sed -E 's/^.*[^ ] {2,}([^ ].*[^ ]) {2,}.*$/\1/' <<<"$line")
        why=$(sed -E 's/^.* {2,}//' <<<"$line")
        $check >/dev/null 2>&1 </dev/null || printf '%s\t%s\n' "$packages" "$why"
    done <<<"$1"
}

install_tools() {
    local lack packages
    lack=$(missing "$1")
    [ -n "$lack" ] || return 0
    packages=$(cut -f1 <<<"$lack" | tr '\n' ' ')
    if ! debian12 || { [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; }; then
        say 'Missing (named as in Debian 12):' >&2
        sed 's/^\([^\t]*\)\t\(.*\)$/  \1  -- \2/' <<<"$lack" >&2
        if debian12; then die "run as root: apt-get install $packages"
        else die 'install these with your package manager, then run this again'; fi
    fi
    say "Installing: $packages"
    apt_quietly update
    # shellcheck disable=SC2086  # a list of words
    apt_quietly install -y --no-install-recommends $packages
    lack=$(missing "$1")
    [ -z "$lack" ] || die "installed, and still not usable: $(tr '\t\n' '  ' <<<"$lack")"
}

apt_quietly() { # silent when it works, everything it said when it does not
    local log status=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 || status=$?
    [ $status = 0 ] || { cat "$log" >&2; rm -f "$log"; die "apt-get $1 failed"; }
    rm -f "$log"
}

# ---------------------------------------------------------------------------------------------------------------- cJSON
# From Debian's source package, so that its signature and its security patches are Debian's. Any 1.7 will do: the archive
# replaces point releases. What is once in build/cjson stays.

no_cjson() {
    die "$1
Put cJSON.c and cJSON.h of any cJSON 1.7 release into build/cjson/ and run this again."
}

fetch_cjson() {
    [ -f build/cjson/cJSON.c ] && [ -f build/cjson/cJSON.h ] && return 0
    command -v apt-get >/dev/null && command -v dpkg-source >/dev/null || no_cjson 'cJSON comes from a Debian source package, and there is no apt-get or dpkg-source here.'
    if ! apt-cache showsrc cjson 2>/dev/null | grep -q '^Package: cjson'; then
        [ -n "$(apt-get indextargets --format '$(CREATED_BY)' 'Created-By: Sources')" ] || add_deb_src
        apt_quietly update
    fi
    local work
    work=$(mktemp -d)
    # apt checks the archive's signature, and by it the source package's checksums; dpkg-source applies Debian's patches
    if ! (cd "$work" && apt-get -qq -o APT::Sandbox::User=root source cjson >log 2>&1 </dev/null); then
        cat "$work/log" >&2
        rm -rf "$work"
        no_cjson 'the source package of cJSON could not be fetched.'
    fi
    grep -qE '^#define CJSON_VERSION_MAJOR 1$' "$work"/cjson-1.7.*/cJSON.h &&
        grep -qE '^#define CJSON_VERSION_MINOR 7$' "$work"/cjson-1.7.*/cJSON.h || { rm -rf "$work"; no_cjson 'the source package is not cJSON 1.7.'; }
    mkdir -p build/cjson
    cp "$work"/cjson-1.7.*/{cJSON.h,LICENSE} build/cjson/
    cp "$work"/cjson-1.7.*/cJSON.c build/cjson/cJSON.c
    rm -rf "$work"
}

add_deb_src() { # a deb-src twin, in a file of its own, of every deb entry that apt already trusts and uses
    local entries
    entries=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(CODENAME)' 'Created-By: Packages' |
        awk '$4 ~ /^bookworm(-updates|-security)?$/ && $3 == "main" {print $1, $2, $3}' | sort -u)
    [ -n "$entries" ] || no_cjson 'apt has no entry of Debian 12 here.'
    while read -r uri suite component; do
        printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n' "$uri" "$suite" "$component"
    done <<<"$entries" | as_root tee /etc/apt/sources.list.d/cjson-source.sources >/dev/null ||
        no_cjson 'apt has no deb-src entry, and adding one needs root.'
}

# ----------------------------------------------------------------------------------------------------------------- main

case "${1:-}" in
tools) install_tools "$build_tools" ;;
test-tools) install_tools "$build_tools$test_tools" ;;
cjson) fetch_cjson ;;
'')
    install_tools "$build_tools"
    make --no-print-directory -s -j2 all
    build/vram estimate
    say
    say "The page: file://$PWD/build/index.html"
    ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
