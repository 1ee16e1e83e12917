package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Streams is what the API needs of a coordinator.Coordinator.
type Streams interface {
	Append(ctx context.Context, ref coordinator.StreamRef, b coordinator.Batch) (coordinator.Ack, error)
	OpenSession(ctx context.Context, ref coordinator.StreamRef, o coordinator.SessionOptions) (*coordinator.Session, error)
	Fence(ctx context.Context, ref coordinator.StreamRef, token string) (coordinator.Fenced, error)
	Token(ctx context.Context, ref coordinator.StreamRef) (string, error)
	CheckTail(ctx context.Context, ref coordinator.StreamRef) (coordinator.Position, error)
	OpenReader(ctx context.Context, ref coordinator.StreamRef, o coordinator.ReadOptions) (*coordinator.Reader, error)
	// View is a state of the stream that is fresh enough; Forget drops one that is remembered.
	View(ctx context.Context, ref coordinator.StreamRef, f coordinator.Freshness) (coordinator.View, error)
	Forget(ref coordinator.StreamRef)
	// Poke tells followers here that the stream changed elsewhere.
	Poke(ref coordinator.StreamRef)
	// Ready reports whether the stores answer.
	Ready(ctx context.Context) error
	// Draining is closed when the process begins to shut down.
	Draining() <-chan struct{}
}

// Options is what a handler is made of. Streams and Directory must be there; every other zero value means the default
// that its comment states.
type Options struct {
	Streams   Streams
	Directory Directory
	// Access tells who makes a request, by its access token; nil lets everybody do everything, as the default account.
	Access Access
	Log    zerolog.Logger
	// Registry gets the metrics of the handler and is what GET /metrics shows; one of its own.
	Registry *prometheus.Registry
	// DisableCORS takes away the permission, given to every web page, to call this API from a browser.
	DisableCORS bool
	// Audit keeps a record of changes; nil keeps none.
	Audit Audit
	// Domain is what basins are addressed below by host, in lower case without a dot at the end; hosts say nothing.
	Domain string
	// Location is the name of the one location, as the Directory has it; local.
	Location string
	// Now is the clock; time.Now.
	Now func() time.Time
	// Version is told in the header Server and in a metric; nothing is told.
	Version string

	// Recheck is how often the token of an answer that lasts is judged again; 2 s.
	Recheck time.Duration
	// BodyTimeout bounds how long a client may take to send a request's body, or a frame of a session once it has
	// begun; 30 s.
	BodyTimeout time.Duration
	// WriteTimeout bounds how long a client may take to accept one write: a unary answer or one event of a stream.
	// A client that takes longer is dropped; 30 s.
	WriteTimeout time.Duration
	// RequestTimeout bounds a unary request once its body is there, the `wait` of a read not counted; 30 s.
	RequestTimeout time.Duration
	// BodyBytes bounds the request bodies held at once, in the whole handler. A request that does not fit is refused
	// with `hot_server`; 256 MiB.
	BodyBytes int64
	// SessionBatches and SessionBytes bound what one append session has admitted and not acknowledged yet: its batches,
	// and their metered bytes. Beyond it the session reads no further; 512 and 8 MiB.
	SessionBatches int
	SessionBytes   int64
	// MaxAge bounds how old an answer to an eventual read may be; 5 s. Negative: such reads are like all others.
	MaxAge time.Duration
	// PageBytes bounds the listings and configs of basins remembered for eventual reads, of which one basin may have a
	// quarter; 8 MiB.
	PageBytes int64
	// MaxStreaming bounds the event streams and sessions open at once; one more is refused with `hot_server`; 10,000.
	MaxStreaming int
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	orDefault(&o.Recheck, 2*time.Second)
	orDefault(&o.Location, "local")
	orDefault(&o.BodyTimeout, 30*time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.RequestTimeout, 30*time.Second)
	orDefault(&o.BodyBytes, 256<<20)
	orDefault(&o.MaxStreaming, 10_000)
	orDefault(&o.MaxAge, 5*time.Second)
	orDefault(&o.PageBytes, 8<<20)
	orDefault(&o.SessionBatches, 512)
	orDefault(&o.SessionBytes, 8<<20)
	o.SessionBytes = max(o.SessionBytes, segments.MaxBatchBytes) // or a large batch would wait for ever
}
