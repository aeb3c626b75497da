# Where programs come from: Debian's packages and crates, by name, through apt and cargo. Nothing is
# installed, and nothing of theirs is in this repository.
#
# Sourced by the scripts of this directory. `$programs` is the directory for everything, made by
# `runner.sh`.

# The component non-free, which machines seldom list, at the mirror of the machine's own list. A
# version that this release's mirror no longer has may be in another release.
apt_sources() {
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg suite mirror
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | grep -m 1 '/debian/*$')
    for suite in bookworm trixie sid; do
        echo "deb [signed-by=$keyring] $mirror $suite non-free"
    done
}

# apt with lists and caches of its own, so that neither the machine's are touched nor root is needed.
apt_own() {
    local state=$programs/apt
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    local command=$1
    shift
    "$command" -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" -o APT::Sandbox::User= "$@"
}

apt_sources_update() {
    grep -qs non-free "$programs/apt/sources.list" && return
    mkdir -p "$programs/apt"
    apt_sources >"$programs/apt/sources.list.new"
    mv "$programs/apt/sources.list.new" "$programs/apt/sources.list"
    apt_own apt-get update -qq
}

# The status of a script whose program the mirror does not have: that is no failure of fdtable.
no_source=77

# debian_package PACKAGE...: unpacks Debian packages of this machine's release, and prints where.
debian_package() {
    local into=$programs/packages package
    for package in "$@"; do
        [[ -e $into/.$package ]] && continue
        mkdir -p "$programs/archives" "$into"
        (cd "$programs/archives" && apt-get -o APT::Sandbox::User= download -qq "$package") >&2
        dpkg-deb -x "$(find "$programs/archives" -name "${package}_*.deb" | head -n 1)" "$into"
        touch "$into/.$package"
    done
    echo "$into"
}

# non_free_package PACKAGE FILE: unpacks a Debian package of the component non-free, which machines
# seldom list, and prints the directory that FILE is in. Returns $no_source if the mirror has none.
non_free_package() {
    local package=$1 file=$2 into=$programs/$1 archive
    if [[ ! -d $into ]]; then
        apt_sources_update >&2
        mkdir -p "$programs/archives"
        (cd "$programs/archives" && apt_own apt-get download -qq "$package/bookworm") >&2 || true
        archive=$(find "$programs/archives" -name "${package}_*.deb" | head -n 1)
        [[ -n $archive ]] || {
            echo "the mirror has no source of $package" >&2
            return "$no_source"
        }
        dpkg-deb -x "$archive" "$into.new"
        mv "$into.new" "$into"
    fi
    dirname "$(find "$into" -name "$file" | head -n 1)"
}

# crate_source CRATE: the source directory of the newest version of a crate, through cargo.
crate_source() {
    local crate=$1 package=$programs/crates/$1
    if [[ ! -d $package ]]; then
        mkdir -p "$package.new/src"
        printf '[package]\nname = "fetch-%s"\nedition = "2021"\n[dependencies]\n"%s" = "*"\n[workspace]\n' \
            "$crate" "$crate" >"$package.new/Cargo.toml"
        touch "$package.new/src/lib.rs"
        cargo fetch --quiet --manifest-path "$package.new/Cargo.toml" >&2
        mv "$package.new" "$package"
    fi
    cargo metadata --quiet --format-version 1 --manifest-path "$package/Cargo.toml" |
        grep -oE '"manifest_path":"[^"]*/'"$crate"'-[0-9][^/"]*/Cargo.toml"' | head -n 1 |
        sed -E 's/.*:"(.*)\/Cargo.toml"/\1/'
}
