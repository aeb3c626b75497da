package main

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// mostThreads is the limit of threads of a turn.
const mostThreads = 2

var errWrong = errors.New("the table returned a wrong result")

// share is the result of one thread.
type share struct {
	operations   int
	began, ended time.Time
}

// allowed lists the CPUs that this process may use; it is called before any thread is bound.
func allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cpus []int
	for cpu := range 8 * len(set) * 8 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// pin binds the calling goroutine to a thread, and the thread to the nth CPU. A thread that is
// bound ends with its goroutine.
func pin(cpus []int, nth int) {
	runtime.LockOSThread()
	if nth < len(cpus) {
		var one unix.CPUSet
		one.Set(cpus[nth])
		// Without it the thread stays where it is.
		_ = unix.SchedSetaffinity(0, &one)
	}
}

// newTable creates an empty table. It uses its kernel only for the limit of descriptors.
func newTable() *kernel.FDTable {
	k := &kernel.Kernel{}
	k.MaxFDLimit.Store(kernel.MaxFdLimit)
	return k.NewFDTable()
}

// open opens a file and drops the caller's reference.
func (p *place) open(table *kernel.FDTable, fd *vfs.FileDescription) (int32, error) {
	defer fd.DecRef(p.ctx)
	return table.NewFD(p.ctx, 0, fd, kernel.FDFlags{})
}

// turn does the work on a new table with some open descriptors, whose files have their index.
func (p *place) turn(work chunk, threads, open int, length time.Duration, round int, sequences [][]int) (float64, error) {
	table := newTable()
	defer table.DecRef(p.ctx)
	descriptors := make([]int32, open)
	for place := range descriptors {
		fd, err := p.newFile(uint64(place))
		if err != nil {
			return 0, err
		}
		if descriptors[place], err = p.open(table, fd); err != nil {
			return 0, err
		}
	}
	workers := make([]*worker, threads)
	for nth := range workers {
		var err error
		if workers[nth], err = p.prepare(table, sequences[nth], descriptors, round); err != nil {
			return 0, err
		}
	}
	return cost(run(work, workers, length))
}

// prepare translates indices to descriptors; each round starts at another position.
func (p *place) prepare(table *kernel.FDTable, places []int, descriptors []int32, round int) (*worker, error) {
	fd, err := p.newFile(0)
	if err != nil {
		return nil, err
	}
	w := &worker{place: p, table: table, file: fd}
	for i := range places {
		place := places[(i+round*61)%len(places)]
		if place >= len(descriptors) {
			return nil, errors.New("a sequence has more places than are open")
		}
		w.sequence = append(w.sequence, descriptors[place])
		w.sum += uint64(place)
	}
	return w, nil
}

// run starts all workers together, each on its own CPU.
func run(work chunk, workers []*worker, length time.Duration) []share {
	cpus := allowed()
	shares := make([]share, len(workers))
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for nth, w := range workers {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			pin(cpus, nth)
			warm := work(w)
			ready.Done()
			<-start
			if warm > 0 {
				shares[nth] = takePart(work, w, length)
			}
		}()
	}
	ready.Wait()
	close(start)
	done.Wait()
	return shares
}

func takePart(work chunk, w *worker, length time.Duration) share {
	one := share{began: time.Now()}
	for {
		did := work(w)
		one.operations += did
		one.ended = time.Now()
		if did == 0 {
			return share{}
		}
		if one.ended.Sub(one.began) >= length {
			return one
		}
	}
}

// cost returns the nanoseconds per operation and busy CPU.
func cost(shares []share) (float64, error) {
	began, ended, operations := shares[0].began, shares[0].ended, 0
	for _, one := range shares {
		if one.operations == 0 {
			return 0, errWrong
		}
		if one.began.Before(began) {
			began = one.began
		}
		if one.ended.After(ended) {
			ended = one.ended
		}
		operations += one.operations
	}
	busy := min(len(shares), runtime.NumCPU())
	return float64(ended.Sub(began).Nanoseconds()) * float64(busy) / float64(operations), nil
}
