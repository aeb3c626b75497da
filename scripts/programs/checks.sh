# Checks of programs that run with `"${run[@]}" PROGRAM`, against the host.
#
# Sourced by the scripts of this directory, which set `run` before.

work=$(mktemp -d -p "$programs")
trap 'rm -rf "$work"' EXIT
mkdir "$work/mount" "$work/overlay" "$work/host"
# Where files are in memory: the directory, and the option that makes it so.
declare -A directory=([/fdt]=/fdt [--mount]=$work/mount/files [--overlay]=$work/overlay [host]=$work/host)
declare -A option=([/fdt]= [--mount]="--mount $work/mount/files" [--overlay]="--overlay $work/overlay" [host]=)
failures=0 patience=60
# What is not compared of what is printed: numbers.
hidden='s/-?[0-9]+(\.[0-9]+)?/N/g'

# report NAME COMMAND...: runs a check, and prints how it ends.
report() {
    local name=$1
    shift
    if "$@"; then
        echo "$name: passes"
    else
        echo "$name: fails" >&2
        failures=$((failures + 1))
    fi
}

# output FILE COMMAND...: runs a command for at most $patience seconds, and writes its status and what
# it prints, without what is $hidden, to FILE. Some programs of lmbench leave processes behind: all
# that the command has started ends with it.
output() {
    local file=$1 status=0
    shift
    (cd "$work/host" && exec setsid timeout --foreground "$patience" "$@") </dev/null >"$file.text" 2>&1 &
    local group=$!
    wait "$group" || status=$?
    kill -KILL -- "-$group" 2>/dev/null || true
    { echo "status $status"; sed -E "$hidden" "$file.text"; } >"$file"
}

# same COMMAND...: compares a command with the host's.
same() {
    output "$work/expected" "$@"
    output "$work/found" "${run[@]}" "$@"
    cmp -s "$work/expected" "$work/found" || {
        diff "$work/expected" "$work/found" | head -n 10 >&2
        return 1
    }
}

# throughput COMMAND...: runs dbench or tbench, which has to report a throughput, and nothing
# that the load file does not expect.
throughput() {
    "$@" >"$work/log" 2>&1 && grep -qE '^Throughput [0-9.]*[1-9]' "$work/log" &&
        ! grep -E '^\[[0-9]+\]|ERROR|failed' "$work/log" || {
        tail -n 5 "$work/log" >&2
        return 1
    }
}
