package main

import (
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

const (
	// pairs is the number of pairs of open and close in a chunk.
	pairs = 512
	// lookupsBetween is the number of lookups between two changes in mixed work.
	lookupsBetween = 9
)

// worker is the state of one thread.
type worker struct {
	*place
	table *kernel.FDTable
	// sequence is its repeated sequence of lookups.
	sequence []int32
	// sum is the sum of the objects of the sequence.
	sum uint64
	// file is the file that it opens and closes.
	file *vfs.FileDescription
}

// chunk does some operations and returns how many, or 0 if the table returned a wrong result.
type chunk func(*worker) int

// works has no borrowed lookup: the table only returns references.
var works = map[string]chunk{
	"owned":          (*worker).owned,
	"open_close":     (*worker).openClose,
	"open_close_new": (*worker).openCloseNew,
	"mixed":          (*worker).mixed,
}

func (w *worker) owned() int {
	if sum, ok := w.lookUp(w.sequence); !ok || sum != w.sum {
		return 0
	}
	return len(w.sequence)
}

// lookUp takes a reference to each file, reads its object, and drops the reference.
func (w *worker) lookUp(sequence []int32) (sum uint64, ok bool) {
	for _, number := range sequence {
		fd, _ := w.table.Get(number)
		if fd == nil {
			return 0, false
		}
		sum += valueOf(fd)
		fd.DecRef(w.ctx)
	}
	return sum, true
}

// pair opens fd and closes it. The table takes a reference of its own, which the close returns.
func (w *worker) pair(fd *vfs.FileDescription) bool {
	number, err := w.table.NewFD(w.ctx, 0, fd, kernel.FDFlags{})
	return err == nil && w.close(number)
}

func (w *worker) close(number int32) bool {
	fd := w.table.Remove(w.ctx, number)
	if fd == nil {
		return false
	}
	fd.DecRef(w.ctx)
	return true
}

func (w *worker) openClose() int {
	for range pairs {
		if !w.pair(w.file) {
			return 0
		}
	}
	return pairs
}

func (w *worker) openCloseNew() int {
	for i := range pairs {
		fd, err := w.newFile(uint64(i))
		if err != nil {
			return 0
		}
		number, err := w.table.NewFD(w.ctx, 0, fd, kernel.FDFlags{})
		fd.DecRef(w.ctx)
		if err != nil || !w.close(number) {
			return 0
		}
	}
	return pairs
}

func (w *worker) mixed() int {
	operations := 0
	for rest := w.sequence; len(rest) >= 2*lookupsBetween; rest = rest[2*lookupsBetween:] {
		_, ok := w.lookUp(rest[:lookupsBetween])
		number, err := w.table.NewFD(w.ctx, 0, w.file, kernel.FDFlags{})
		if !ok || err != nil {
			return 0
		}
		_, ok = w.lookUp(rest[lookupsBetween : 2*lookupsBetween])
		if !w.close(number) || !ok {
			return 0
		}
		operations += 2*lookupsBetween + 2
	}
	return operations
}
