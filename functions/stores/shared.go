package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
	"github.com/tailrace-streams/tailrace/coordinator/s3store"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/config/cloud"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/tenancy"
)

const (
	// firstTry bounds the first attempt to reach the stores, before a server goes on without them.
	firstTry = 10 * time.Second
	// laterTry bounds each attempt after it, retryMin and retryMax the pause between two.
	laterTry = 30 * time.Second
	retryMin = 250 * time.Millisecond
	retryMax = 5 * time.Second
	// maxSkew is how far the object store's clock and this process's may differ before the store's is taken (protocol 1).
	maxSkew = time.Minute
)

// sharedHeads is a store of heads and control records that several processes use.
type sharedHeads interface {
	coordinator.Heads
	coordinator.Table
	ID() uuid.UUID
	Close()
}

// opener reaches the store of the objects and that of the heads, and lets them in once they are found to be one store of ours.
type opener struct {
	cfg    config.Config
	log    zerolog.Logger
	cloud  *cloud.Cloud
	bucket *s3objects.Store
	guard  *guard
	how    Opening

	opened, failed chan struct{}
	heads          sharedHeads // set before opened is closed
	bucketHeads    atomic.Pointer[s3store.Store]
}

// OpenShared opens stores that other processes may use as well. What somebody has to mend is an error. Stores
// that are out of reach, or that ask for patience, are none: they are tried again in the background, and until then every
// call of them fails (BL-101).
func OpenShared(ctx context.Context, cfg config.Config, logger zerolog.Logger, how Opening) (*Stores, error) {
	c, err := cloud.Load(ctx, cfg, logger)
	if err != nil {
		return nil, fmt.Errorf("open %s and %s: %w", cfg.Objects, cfg.Heads, err)
	}
	client, err := s3objects.Dial(c.Objects())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Objects, err)
	}
	o := &opener{
		cfg: cfg, log: logger, cloud: c, bucket: s3objects.New(client), guard: newGuard(), how: how,
		opened: make(chan struct{}), failed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var trying sync.WaitGroup
	err = o.try(ctx, firstTry)
	if err != nil && !temporary(err) {
		cancel()
		return nil, errors.Join(err, client.Close())
	}
	where := fmt.Sprintf("%s and %s", cfg.Objects, cfg.Heads)
	if err != nil {
		logger.Error().Err(err).Msg("the stores cannot be reached: not ready, trying again")
		where += " (not reached yet: the log says why)"
		trying.Go(func() { o.keepTrying(ctx) })
	}
	return &Stores{
		Heads: guardedHeads{o.guard}, Table: guardedTable{o.guard}, Objects: guardedObjects{o.guard}, Room: o.room(),
		Shared: true, Where: where, Opened: o.opened, Failed: o.failed, Now: o.now,
		Collectors: append(o.guard.collectors(), o.collectors()...),
		Close: func() error {
			cancel()
			trying.Wait()
			if o.heads != nil {
				o.heads.Close()
			}
			return client.Close()
		},
	}, nil
}

// keepTrying goes on until the stores are open, or something is found that somebody has to mend.
func (o *opener) keepTrying(ctx context.Context) {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		err := o.try(ctx, laterTry)
		switch {
		case err == nil:
			o.log.Info().Msg("the stores are reached")
			return
		case ctx.Err() != nil:
			return
		case !temporary(err):
			o.log.Error().Err(err).Msg("the stores cannot be used")
			close(o.failed)
			return
		}
		o.log.Warn().Err(err).Msg("the stores cannot be reached yet")
	}
}

// try makes one attempt to open the stores.
func (o *opener) try(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	heads, err := o.openHeads(ctx)
	if err != nil {
		return err
	}
	if err := o.check(ctx, heads); err != nil {
		heads.Close()
		return fmt.Errorf("open %s with %s: %w", o.cfg.Objects, o.cfg.Heads, err)
	}
	o.heads = heads
	o.guard.in.Store(&Backend{heads, heads, o.bucket})
	close(o.opened)
	return nil
}

// check finds out that the bucket can be used and belongs to the heads.
func (o *opener) check(ctx context.Context, heads sharedHeads) error {
	c := &claimer{heads, o.bucket, heads.ID(), o.cfg.Objects.String(), o.how.Claim}
	if o.how.Trust {
		// Whoever wrote that row had probed the bucket, and claimed it.
		if there, err := c.placed(ctx); there || err != nil {
			return err
		}
	}
	if err := o.bucket.Probe(ctx); err != nil {
		return err
	}
	return c.claim(ctx)
}

// openHeads opens the heads where the settings say that they are.
func (o *opener) openHeads(ctx context.Context) (sharedHeads, error) {
	if o.inBucket() {
		store, err := s3store.Open(ctx, s3store.Options{
			Bucket: o.cloud.BucketHeads(), Create: o.how.Claim, Trust: o.how.Trust, UsedOnce: usedOnce, Log: o.log,
		})
		if errors.Is(err, s3store.ErrNoStore) {
			err = fmt.Errorf("%w: %w", err, ErrNoStores)
		}
		if err != nil {
			return nil, err
		}
		o.bucketHeads.Store(store)
		return store, nil
	}
	table, err := dynamostore.Open(ctx, o.cloud.Table())
	if errors.Is(err, dynamostore.ErrNoTable) {
		err = fmt.Errorf("%w; set it up with tailrace admin create-table --heads %s", err, o.cfg.Heads)
	}
	if err != nil {
		return nil, err
	}
	return table, nil
}

func (o *opener) inBucket() bool { return o.cfg.Heads.Bucket != "" }

func (o *opener) room() coordinator.Room {
	if o.inBucket() {
		return s3store.Room
	}
	return dynamostore.Room
}

// ProbePart is the part of rows that a store is only tried with. Their keys are used once.
const ProbePart = "probe"

// usedOnce reports whether rows of a part are never written again once they are deleted.
func usedOnce(part string) bool { return part == ProbePart || tenancy.UsedOnce(part) }

// temporary reports whether an attempt may succeed later without anybody mending anything: no answer came in time or at
// all, or the service said that it cannot just now.
func temporary(err error) bool {
	var answer interface{ HTTPStatusCode() int }
	var code interface{ ErrorCode() string }
	switch {
	case errors.Is(err, ErrForeignBucket), errors.Is(err, ErrNoStores), errors.Is(err, dynamostore.ErrNoTable), errors.Is(err, dynamostore.ErrForeign),
		errors.Is(err, dynamostore.ErrVersion), errors.Is(err, s3store.ErrForeign), errors.Is(err, s3store.ErrVersion),
		errors.Is(err, s3objects.ErrMisbehaves), errors.Is(err, s3objects.ErrNoCredentials):
		return false
	case errors.Is(err, s3objects.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.As(err, new(*s3objects.Error)):
		return false
	case errors.As(err, &code) && throttles[code.ErrorCode()]:
		return true
	case errors.As(err, &answer):
		return answer.HTTPStatusCode() >= http.StatusInternalServerError || answer.HTTPStatusCode() == 0
	}
	return !untrusted(err)
}

// throttles are DynamoDB's words for "later", which it says with status 400.
var throttles = map[string]bool{
	"ProvisionedThroughputExceededException": true, "ThrottlingException": true, "RequestLimitExceeded": true,
	"Throttling": true, "TransactionInProgressException": true,
}

// untrusted reports whether an https endpoint showed a certificate that is not trusted, which no patience mends.
func untrusted(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.Is(err, http.ErrSchemeMismatch)
}

// now is this process's clock, or the object store's where they are far apart: the time of a process that has no idea what
// time it is must not decide how long records are kept.
func (o *opener) now() time.Time {
	now := time.Now()
	if offset := o.bucket.Clock().Offset; offset.Abs() > maxSkew {
		now = now.Add(offset)
	}
	return now
}

// collectors are of the requests to the object store, of which one call may make several.
func (o *opener) collectors() []prometheus.Collector {
	counter := func(name, help string, of func(s3objects.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 {
			n := of(o.bucket.Stats())
			if heads := o.bucketHeads.Load(); heads != nil {
				n += of(heads.Stats().Requests)
			}
			return float64(n)
		})
	}
	return []prometheus.Collector{
		counter("tailrace_object_store_requests_total", "Requests sent to the object store.",
			func(s s3objects.Stats) uint64 { return s.Requests }),
		counter("tailrace_object_store_repeated_requests_total", "Requests sent because one before them failed.",
			func(s s3objects.Stats) uint64 { return s.Repeated }),
		counter("tailrace_object_store_hedged_requests_total", "GETs sent beside one that was slow.",
			func(s s3objects.Stats) uint64 { return s.Hedged }),
	}
}
