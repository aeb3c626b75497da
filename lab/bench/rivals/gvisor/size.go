package main

import (
	"runtime"
	"slices"
	"time"

	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// tail has the durations of many opens, in nanoseconds with the clock.
type tail struct {
	median, p9999, max int64
	count              int
}

// growth opens many descriptors in a new table, each timed alone. Files are created before.
func (p *place) growth(most int) (tail, error) {
	files := make([]*vfs.FileDescription, most)
	for i := range files {
		var err error
		if files[i], err = p.newFile(uint64(i)); err != nil {
			return tail{}, err
		}
	}
	table := newTable()
	defer table.DecRef(p.ctx)
	durations := make([]int64, most)
	var failed error
	alone := make(chan struct{})
	go func() {
		defer close(alone)
		pin(allowed(), 0)
		failed = p.openEach(table, files, durations)
	}()
	<-alone
	if failed != nil {
		return tail{}, failed
	}
	return tailOf(durations), nil
}

func (p *place) openEach(table *kernel.FDTable, files []*vfs.FileDescription, durations []int64) error {
	for i, fd := range files {
		began := time.Now()
		_, err := table.NewFD(p.ctx, 0, fd, kernel.FDFlags{})
		durations[i] = time.Since(began).Nanoseconds()
		if err != nil {
			return err
		}
	}
	return nil
}

func tailOf(durations []int64) tail {
	slices.Sort(durations)
	count := len(durations)
	return tail{
		median: durations[(count-1)/2],
		p9999:  durations[(count*9999+9999)/10000-1],
		max:    durations[count-1],
		count:  count,
	}
}

// heapInUse returns the bytes that are reachable.
func heapInUse() float64 {
	// Twice: the second sweeps the objects that the first finds unreachable.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// footprint returns the bytes for each of many descriptors, beyond the object: one, which all of
// them share. They are opened some hundreds at once, a call of the table for recvmsg(2).
func (p *place) footprint(live int) (float64, error) {
	fd, err := p.newFile(0)
	if err != nil {
		return 0, err
	}
	const atOnce = 512
	same := slices.Repeat([]*vfs.FileDescription{fd}, atOnce)
	before := heapInUse()
	table := newTable()
	for opened := 0; opened < live; opened += atOnce {
		some := same[:min(atOnce, live-opened)]
		if _, err := table.NewFDs(p.ctx, int32(opened), some, kernel.FDFlags{}); err != nil {
			return 0, err
		}
	}
	after := heapInUse()
	table.DecRef(p.ctx)
	return (after - before) / float64(live), nil
}
