package s3objects

import (
	"context"
	"sync"
	"time"
)

const (
	// firstDelay is the hedge delay of a store of which nothing is known yet.
	firstDelay = 150 * time.Millisecond
	minDelay   = 5 * time.Millisecond
	maxDelay   = time.Second
	// hedgeRate is how fast a body is expected to come before a second request is thought to be faster.
	hedgeRate = 32 << 20
	// wholeObject is the most that an answer is expected to be, and what is expected if the size is not known.
	wholeObject = 16 << 20

	// hedgeShare is the part of all GETs that may be hedges, hedgeBurst how many may be saved up.
	hedgeShare = 0.1
	hedgeBurst = 10
)

// hedge runs fetch, and runs it once more beside if the first is slow. The first answer is taken; an error only if there is
// nothing left to wait for, for where two requests are on their way the second may be on a better one.
func (s *Store) hedge(ctx context.Context, length int64, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	s.hedges.earn()
	delay := s.hedgeDelay(length)
	if delay < 0 {
		return fetch(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the slower one
	type result struct {
		data []byte
		err  error
	}
	results := make(chan result, 2)
	run := func() {
		data, err := fetch(ctx)
		results <- result{data, err}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	go run()
	for running := 1; ; {
		select {
		case r := <-results:
			running--
			if r.err == nil || isNotFound(r.err) || running == 0 {
				return r.data, r.err
			}
		case <-timer.C:
			if s.hedges.spend() {
				s.meter.hedged.Add(1)
				running++
				go run()
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hedgeDelay is negative if there is to be no hedge.
func (s *Store) hedgeDelay(length int64) time.Duration {
	if s.options.HedgeDelay != 0 {
		return s.options.HedgeDelay
	}
	if length < 0 || length > wholeObject {
		length = wholeObject
	}
	transfer := time.Duration(float64(length) / hedgeRate * float64(time.Second))
	return min(max(s.latency.estimate(), minDelay), maxDelay) + transfer
}

// quantile follows the 95th percentile of a quantity that drifts: it goes up a long step after a value above it and down
// a short one after a value below, so that it rests where one value in twenty is above. All methods may be called at once.
type quantile struct {
	mu  sync.Mutex
	now time.Duration
}

func newQuantile() quantile { return quantile{now: firstDelay} }

func (q *quantile) observe(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d > q.now {
		q.now += q.now * 19 / 100
	} else {
		q.now -= q.now / 100
	}
	q.now = min(max(q.now, time.Millisecond), 10*time.Second)
}

func (q *quantile) estimate() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now
}

// allowance keeps hedges a fixed share of the GETs: a store that is slow for all of them is not helped by twice as many. All
// methods may be called at once.
type allowance struct {
	mu    sync.Mutex
	saved float64
}

func newAllowance() allowance { return allowance{saved: hedgeBurst} }

func (a *allowance) earn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = min(a.saved+hedgeShare, hedgeBurst)
}

func (a *allowance) spend() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.saved < 1 {
		return false
	}
	a.saved--
	return true
}
