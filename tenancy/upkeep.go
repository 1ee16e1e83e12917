package tenancy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Upkeep walks over all streams, round after round, and does what is due and what no trigger led to: floors,
// retirement, deletion of empty streams, and the collection of objects that nobody names. All of it is derived from
// what is stored, so a process that ends in the middle leaves nothing undone for longer than a round.
//
// It is for one goroutine of one process; several processes may each have one, which only costs requests.
type Upkeep struct {
	Directory   *Directory
	Coordinator *coordinator.Coordinator
	Log         zerolog.Logger
	// Grace is how old an object must be to be collected.
	Grace time.Duration
	// Interval is the least time between the starts of two rounds; a round is also followed by a rest of nine times
	// its own length, so that upkeep takes at most a tenth of a processor's time.
	Interval time.Duration
	// HeadsPerSecond bounds the streams looked at; 2000.
	HeadsPerSecond int
	// Last is the basin that was looked after last. A round begins with the one behind it, by id: where rounds end before
	// they are complete, as those of a process with little time, each goes on where the one before it ended.
	Last segments.BasinID

	// empty are streams that hold no record and when that was first seen, for those that are to be deleted then.
	empty map[segments.StreamID]emptySince
}

type emptySince struct {
	tail uint64
	at   time.Time
}

// UpkeepReport counts what a round did.
type UpkeepReport struct {
	Basins, Streams int
	DeletedEmpty    int
	Forgotten       int // deleted streams without any data left
	Collected       coordinator.CollectReport
}

// Run does rounds until ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	for wait := u.Interval; ; {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		began := time.Now()
		report, err := u.Round(ctx)
		took := time.Since(began)
		wait = max(u.Interval-took, 9*took)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			u.Log.Warn().Err(err).Msg("upkeep left something undone; the next round comes again")
		default:
			u.Log.Debug().Int("streams", report.Streams).Int("collected", report.Collected.Deleted).Dur("took", took).Msg("upkeep")
		}
	}
}

// Round looks at every stream and every object once. One stream or basin that fails does not end it; the errors are
// joined.
func (u *Upkeep) Round(ctx context.Context) (UpkeepReport, error) {
	defaultTo(&u.HeadsPerSecond, 2000)
	if u.empty == nil {
		u.empty = make(map[segments.StreamID]emptySince)
	}
	var report UpkeepReport
	var failed troubles
	limit := rate.NewLimiter(rate.Limit(u.HeadsPerSecond), 100)
	basins, err := u.basins(ctx)
	failed.add(err)
	for _, b := range basins {
		report.Basins++
		failed.add(u.basin(ctx, b, limit, &report))
		u.Last = b.ID // also if the time ran out in it: one that is too large for a round must not keep out the others
		if ctx.Err() != nil {
			failed.add(ctx.Err())
			break
		}
	}
	return report, errors.Join(failed...)
}

// basins lists the basins in the order of a round.
func (u *Upkeep) basins(ctx context.Context) ([]Basin, error) {
	var all []Basin
	err := u.Directory.Basins(ctx, func(b Basin) error {
		all = append(all, b)
		return ctx.Err()
	})
	behind := func(b Basin) bool { return bytes.Compare(b.ID[:], u.Last[:]) > 0 }
	slices.SortFunc(all, func(a, b Basin) int {
		if behind(a) != behind(b) {
			return map[bool]int{true: -1, false: 1}[behind(a)]
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	return all, err
}

func (u *Upkeep) basin(ctx context.Context, b Basin, limit *rate.Limiter, report *UpkeepReport) error {
	var failed troubles
	dead := make(map[segments.StreamID]bool)
	failed.add(u.Directory.WalkBasin(ctx, b, func(s Stream) error {
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		report.Streams++
		switch {
		case s.State == Deleted && u.Directory.aged(toMillis(s.DeletedAt)):
			dead[s.Ref.Stream] = true
		case s.State == Active:
			failed.add(u.stream(ctx, s, report))
		}
		return nil
	}))
	collected, err := u.Collect(ctx, b, u.Grace, false)
	failed.add(err)
	add(&report.Collected, collected)
	if len(dead) > 0 {
		forgotten, err := u.forget(ctx, b, dead)
		report.Forgotten += forgotten
		failed.add(err)
	}
	if b.State == Deleted {
		if err := u.Directory.ForgetBasin(ctx, b.ID); !errors.Is(err, ErrInUse) {
			failed.add(err)
		}
	}
	return errors.Join(failed...)
}

// stream maintains one stream, and deletes it if it is to go when empty.
func (u *Upkeep) stream(ctx context.Context, s Stream, report *UpkeepReport) error {
	h, err := u.Coordinator.Maintain(ctx, s.Ref)
	switch {
	case errors.Is(err, coordinator.ErrNotFound):
		return nil // half created; Repair sees to it
	case err != nil:
		return fmt.Errorf("stream %s: %w", s.Ref.Stream, err)
	}
	minAge := time.Duration(h.Config.DeleteOnEmptyMinAge) * time.Second
	if h.State == coordinator.Active && (minAge == 0 || max(h.First(), h.Floor) < h.Tail) {
		delete(u.empty, s.Ref.Stream)
		return nil
	}
	now := u.Directory.Clock()
	if h.State == coordinator.Active {
		since, seen := u.empty[s.Ref.Stream]
		if !seen || since.tail != h.Tail {
			u.empty[s.Ref.Stream] = emptySince{h.Tail, now}
			return nil
		}
		if now.Sub(since.at) < minAge {
			return nil
		}
		// The head first, and only if it is still as empty: a record that comes in between keeps the stream.
		if kept, err := u.Directory.closeEmpty(ctx, s.Ref, h.Tail); kept || err != nil {
			return err
		}
	}
	// Closed just now, or by a round that did not get further.
	delete(u.empty, s.Ref.Stream)
	if _, err := u.Directory.DeleteIncarnation(ctx, s.BasinName, s.Name, s.Ref.Stream); err != nil {
		return fmt.Errorf("delete empty stream %s: %w", s.Ref.Stream, err)
	}
	report.DeletedEmpty++
	return nil
}

// closeEmpty moves an active head to deleting unless its tail has moved.
func (d *Directory) closeEmpty(ctx context.Context, ref coordinator.StreamRef, tail uint64) (kept bool, err error) {
	_, err = d.Heads.Change(ctx, ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), State: coordinator.Deleting, IfTail: &tail})
	var refusal *coordinator.Refusal
	if errors.As(err, &refusal) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("close empty stream: %w", err)
	}
	return false, nil
}

// Collect deletes the objects of a basin that no stream reaches and that are older than grace.
func (u *Upkeep) Collect(ctx context.Context, b Basin, grace time.Duration, dryRun bool) (coordinator.CollectReport, error) {
	return u.Coordinator.Collect(ctx, b.ID, coordinator.CollectOptions{
		Grace: grace, DryRun: dryRun,
		Streams: func(ctx context.Context, visit func(segments.StreamID) error) error {
			return u.Directory.WalkBasin(ctx, b, func(s Stream) error { return visit(s.Ref.Stream) })
		},
	})
}

// forget lets go of deleted streams that no object holds data of any more. Until then their heads stay, so that
// collection knows whose the data was.
func (u *Upkeep) forget(ctx context.Context, b Basin, dead map[segments.StreamID]bool) (n int, err error) {
	held, err := u.Coordinator.Holding(ctx, b.ID, dead)
	if err != nil {
		return 0, err
	}
	for id := range dead {
		if held[id] {
			continue
		}
		if err := u.Directory.ForgetDead(ctx, coordinator.StreamRef{Basin: b.ID, Stream: id}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func add(to *coordinator.CollectReport, r coordinator.CollectReport) {
	to.Candidates += r.Candidates
	to.Named += r.Named
	to.Quarantined += r.Quarantined
	to.Deleted += r.Deleted
	to.Failed += r.Failed
	to.Bytes += r.Bytes
}
