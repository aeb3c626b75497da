# The two ways to put a C program on fdtable's descriptors without a change to its source:
#
# by header    cc -include fdtable/posix.h: the preprocessor renames the calls
# by symbols   objcopy --redefine-syms=fdtable/redefine.syms: the calls are renamed in object files
#
# and a look at what an object still imports, since a program that passes can be leaking all the same.
#
# Sourced by the scripts of this directory. `$programs` is where everything goes: the argument
# `--dir DIR` of each script, or target/programs.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=$(cd "$repository" && mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
programs=${PROGRAMS_DIR:-$target/programs}
mkdir -p "$programs"
prefix=$programs/fdtable
CC=${CC:-cc}

# Installs the library, its headers and the list of names below $prefix.
install_fdtable() {
    "$repository/scripts/install" --prefix "$prefix" --only library >&2
}

# The libraries that a program needs with the static one.
fdtable_libraries=("$prefix/lib/libfdtable.a" -lpthread -ldl -lm)

# compile OUT [CFLAGS...] -- SOURCE...: object files in OUT, one for each source; again only if the
# flags, a source or fdtable's headers are others than the last time.
compile() {
    local out=$1 flags=() source made
    shift
    while [[ $1 != -- ]]; do
        flags+=("$1")
        shift
    done
    shift
    made="$CC ${flags[*]} $(cat "$@" "$prefix"/include/fdtable/*.h | cksum)"
    [[ -s $out/made && $(<"$out/made") == "$made" ]] && return
    rm -rf "$out"
    mkdir -p "$out"
    for source in "$@"; do
        "$CC" "${flags[@]}" -c "$source" -o "$out/$(basename "${source%.c}").o"
    done
    echo "$made" >"$out/made"
}

# compile_by_header OUT [CFLAGS...] -- SOURCE...: the same under the header.
compile_by_header() {
    local out=$1
    shift
    compile "$out" -include fdtable/posix.h -I"$prefix/include" -D_GNU_SOURCE "$@"
}

# rename_symbols OUT OBJECT...: copies of the host's objects, renamed.
rename_symbols() {
    local out=$1 object
    shift
    rm -rf "$out"
    mkdir -p "$out"
    for object in "$@"; do
        objcopy --redefine-syms="$prefix/include/fdtable/redefine.syms" "$object" \
            "$out/$(basename "$object")"
    done
}

# leaks OBJECT...: the host's names that the objects still import and that the list renames.
leaks() {
    comm -12 <(nm -u "$@" | awk '$1 == "U" { print $2 }' | sort -u) \
        <(awk '!/^#/ { print $1 }' "$prefix/include/fdtable/redefine.syms" | sort -u)
}

# Fails, and tells the names, if anything leaks.
no_leaks() {
    local found
    found=$(leaks "$@")
    [[ -z $found ]] || {
        echo "these calls go past fdtable: $(tr '\n' ' ' <<<"$found")" >&2
        return 1
    }
}
