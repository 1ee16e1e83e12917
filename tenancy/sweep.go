package tenancy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Run sweeps and walks until ctx ends. Any number of processes may run it over one table: what one has done, the
// others find done.
func (d *Directory) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error {
		d.every(ctx, rand.N(d.SweepPeriod), d.SweepPeriod, func() {
			if done, err := d.Sweep(ctx); err != nil || done.Failed > 0 {
				d.Log.Warn().Err(err).Int64("failed", done.Failed).Msg("sweep of the directory is not complete")
			}
		})
		return nil
	})
	g.Go(func() error {
		// Early enough for a process that is restarted every day.
		d.every(ctx, rand.N(d.WalkPeriod)/24, d.WalkPeriod, func() {
			if err := d.Repair(ctx); err != nil {
				d.Log.Warn().Err(err).Msg("walk of the directory is not complete")
			}
		})
		return nil
	})
	_ = g.Wait()
}

// every calls f after first and then once a period. Callers draw first, so that processes that started together do
// not work together.
func (d *Directory) every(ctx context.Context, first, period time.Duration, f func()) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		f()
		timer.Reset(period)
	}
}

// Swept counts what a sweep did.
type Swept struct {
	Done   int64 // rows of work that are done with
	Left   int64 // rows that have to wait for something
	Failed int64 // rows whose stores failed; the next sweep tries again
}

// Sweep does all the work that was due when it began. What there is to do is in the table alone: a crash or a lost
// trigger delays it to the next sweep. The error is of the listing; work that fails is counted and does not hold up
// the rest.
func (d *Directory) Sweep(ctx context.Context) (Swept, error) {
	s := &sweep{d: d, now: d.now()}
	var failed error
	// In any order, so that processes that sweep at the same time start at different ends.
	for _, shard := range rand.Perm(shards) {
		failed = errors.Join(failed, s.shard(ctx, workPart(shard)))
	}
	// Basins last: one with a million streams must not keep single streams waiting.
	for _, item := range s.basins {
		s.count(d.sweepBasin(ctx, item))
	}
	return Swept{s.done.Load(), s.left.Load(), s.failed.Load()}, failed
}

type sweep struct {
	d                  *Directory
	now                uint64
	basins             []*work
	done, left, failed atomic.Int64
}

// work is a work row as it was read.
type work struct {
	workRow
	key coordinator.Key
	v   uint64
}

// maxBasins bounds the dying basins that one sweep takes up.
const maxBasins = 1000

// errEnough ends a listing early.
var errEnough = errors.New("enough")

func (s *sweep) shard(ctx context.Context, part string) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.d.Workers)
	// Most of what waits is not due for a day, and most sweeps find nothing else.
	const firstPage = 2
	err := s.d.eachFrom(ctx, part, "", firstPage, func(row coordinator.Row) error {
		if row.Key.Sort >= dueKey(s.now+1) {
			return errEnough
		}
		item := &work{key: row.Key, v: row.Version}
		if err := decode(row.Value, &item.workRow); err != nil {
			s.count(false, err) // a newer version's work is a newer process's to do
			return nil
		}
		if item.Kind == finishBasin {
			if len(s.basins) < maxBasins {
				s.basins = append(s.basins, item)
			}
			return nil
		}
		// Never an error from here: it would end the context of the others.
		g.Go(func() error {
			s.count(s.d.do(gctx, item))
			return nil
		})
		return nil
	})
	_ = g.Wait()
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (s *sweep) count(done bool, err error) {
	switch {
	case err != nil:
		s.failed.Add(1)
		s.d.Log.Debug().Err(err).Msg("work of the directory failed")
	case done:
		s.done.Add(1)
	default:
		s.left.Add(1)
	}
}

// do does one piece of work and removes its row; false if that has to wait.
func (d *Directory) do(ctx context.Context, w *work) (bool, error) {
	var done bool
	var err error
	switch w.Kind {
	case finishStream:
		done, err = d.doFinish(ctx, w)
	case purgeStream:
		done, err = d.doPurgeStream(ctx, w)
	case purgeBasin:
		done, err = d.doPurgeBasin(ctx, w)
	}
	if err != nil || !done {
		return false, err
	}
	return true, d.drop(ctx, w.key, w.v)
}

// patience is how long work on a stream that is still active waits for the mark that may be on its way. A mark that
// comes later yet is found by whoever meets it, or by the walk.
const patience = uint64(time.Hour / time.Millisecond)

func (d *Directory) doFinish(ctx context.Context, w *work) (bool, error) {
	e, err := d.getStream(ctx, place{w.Basin, w.BasinName, w.Name})
	switch {
	case err != nil:
		return false, err
	case e.ID != w.Stream:
		return true, nil
	case e.State == Deleting:
		return true, d.finish(ctx, &e, true)
	case e.State == Deleted:
		return true, nil
	}
	return d.now() > w.Due+patience, nil
}

func (d *Directory) doPurgeStream(ctx context.Context, w *work) (bool, error) {
	e, err := d.getStream(ctx, place{w.Basin, w.BasinName, w.Name})
	switch {
	case err != nil:
		return false, err
	case e.ID != w.Stream:
		return true, nil
	case e.State == Deleting: // the tombstone was not written; its own work row sees to that
		return false, d.finish(ctx, &e, true)
	}
	return d.purgeStream(ctx, &e)
}

// purgeStream removes a tombstone that is old enough; false if there is none.
func (d *Directory) purgeStream(ctx context.Context, e *entry) (bool, error) {
	if e.State != Deleted || !d.aged(e.DeletedAt) {
		return false, nil
	}
	grave := e.streamRow
	grave.DeletedAt = d.now()
	return true, d.purge(ctx, streamKey(e.basin, e.name), &grave, e.v, func() error {
		return d.putWork(ctx, purgeStream, e, d.TombstoneAge)
	})
}

func (d *Directory) doPurgeBasin(ctx context.Context, w *work) (bool, error) {
	b, err := d.getBasin(ctx, w.BasinName)
	switch {
	case err != nil:
		return false, err
	case b.ID != w.Basin:
		return true, nil
	}
	return d.purgeBasin(ctx, &b)
}

func (d *Directory) purgeBasin(ctx context.Context, b *basin) (bool, error) {
	if b.State != Deleted || !d.aged(b.DeletedAt) {
		return false, nil
	}
	grave := b.basinRow
	grave.DeletedAt = d.now()
	return true, d.purge(ctx, basinKey(b.name), &grave, b.v, func() error {
		return d.putBasinWork(ctx, purgeBasin, b, d.now()+uint64(d.TombstoneAge.Milliseconds()))
	})
}

// aged reports whether a tombstone of that time may go.
func (d *Directory) aged(deletedAt uint64) bool {
	return d.now() >= deletedAt+uint64(d.TombstoneAge.Milliseconds())
}
