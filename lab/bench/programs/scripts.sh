# Eight scripts at once, as UnixBench's "shell scripts (8)", so many times: scripts.sh COUNT FOLDER
cd "$2" || exit 1
seq 400 | sed 's/$/ the quick brown fox/' >sort.src
one() {
    sort <sort.src >"sort.$1"
    od "sort.$1" | sort -n -k 1 >"od.$1"
    grep the "sort.$1" | tee "grep.$1" | wc >"wc.$1"
    rm "sort.$1" "grep.$1" "od.$1" "wc.$1"
}
for _ in $(seq "$1"); do
    for i in 1 2 3 4 5 6 7 8; do
        one "$i" &
    done
    wait
done
rm sort.src
