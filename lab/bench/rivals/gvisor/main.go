// gVisor's descriptor table beside ours: a program that answers requests, a line each.
//
//	sequence NTH PLACE...                  lookups of the nth thread from now on     ->  ok
//	turn WORK THREADS OPEN LENGTH_NS ROUND                               ->  ns X, or cannot
//	growth MOST                                     ->  tail MEDIAN_NS P9999_NS MAX_NS COUNT
//	footprint LIVE                                                                   ->  bytes X
//
// The answer to any other request, or after a failure, is `error` and a sentence. The program ends
// with its input.
//
// The table is kernel.FDTable itself, with a kernel of which it only uses the limit of descriptors,
// and a context without limits: reading those of a task would take another lock.
//
// Read it in this order: file.go, work.go, turn.go, size.go.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// rival is the state between two requests.
type rival struct {
	*place
	sequences [mostThreads][]int
}

func main() {
	place, err := newPlace()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := rival{place: place}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		answer, err := r.answer(strings.Fields(line))
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Println(answer)
	}
}

func (r *rival) answer(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("the request is empty")
	}
	switch words[0] {
	case "sequence":
		return r.answerSequence(words[1:])
	case "turn":
		return r.answerTurn(words[1:])
	case "growth":
		return r.answerGrowth(words[1:])
	case "footprint":
		return r.answerFootprint(words[1:])
	}
	return "", errors.New("unknown request")
}

// numbers parses some numbers that are not negative.
func numbers(words []string) ([]int, error) {
	read := make([]int, len(words))
	for i, word := range words {
		number, err := strconv.Atoi(word)
		if err != nil || number < 0 {
			return nil, fmt.Errorf("%q is no number", word)
		}
		read[i] = number
	}
	return read, nil
}

func (r *rival) answerSequence(words []string) (string, error) {
	read, err := numbers(words)
	if err != nil || len(read) < 2 || read[0] >= mostThreads {
		return "", errors.Join(errors.New("a sequence is a thread's number and some places"), err)
	}
	r.sequences[read[0]] = read[1:]
	return "ok", nil
}

func (r *rival) answerTurn(words []string) (string, error) {
	const form = "a turn is work, threads, open descriptors, nanoseconds and a round"
	if len(words) != 5 {
		return "", errors.New(form)
	}
	read, err := numbers(words[1:])
	if err != nil {
		return "", err
	}
	threads, open, length, round := read[0], read[1], time.Duration(read[2]), read[3]
	if threads < 1 || threads > mostThreads || open < 1 || length < 1 {
		return "", errors.New(form)
	}
	if words[0] == "borrowed" {
		return "cannot", nil
	}
	work, known := works[words[0]]
	if !known {
		return "", errors.New(form)
	}
	for _, sequence := range r.sequences[:threads] {
		if len(sequence) == 0 {
			return "", errors.New("a thread has no sequence")
		}
	}
	ns, err := r.turn(work, threads, open, length, round, r.sequences[:])
	return fmt.Sprintf("ns %.4f", ns), err
}

func (r *rival) answerGrowth(words []string) (string, error) {
	most, err := one(words)
	if err != nil {
		return "", err
	}
	tail, err := r.growth(most)
	return fmt.Sprintf("tail %d %d %d %d", tail.median, tail.p9999, tail.max, tail.count), err
}

func (r *rival) answerFootprint(words []string) (string, error) {
	live, err := one(words)
	if err != nil {
		return "", err
	}
	bytes, err := r.footprint(live)
	return fmt.Sprintf("bytes %.4f", bytes), err
}

// one parses a single number of descriptors.
func one(words []string) (int, error) {
	read, err := numbers(words)
	if err != nil || len(read) != 1 || read[0] < 1 {
		return 0, errors.Join(errors.New("this wants a number of descriptors"), err)
	}
	return read[0], nil
}
