# The runner, and the directory for everything that the scripts of this directory make: the argument
# `--dir DIR` of each script, or target/programs.
#
# Sourced by them. A script sets `fdtable` before, or leaves it empty for the program of this
# repository.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=$(cd "$repository" && mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
programs=${PROGRAMS_DIR:-$target/programs}
mkdir -p "$programs"

if [[ -z $fdtable ]]; then
    (cd "$repository" && cargo build --quiet --release -p fdtable-cli)
    fdtable=$target/release/fdtable
fi
