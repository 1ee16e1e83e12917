package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// Directory is what the API needs of a tenancy.Directory.
type Directory interface {
	Basins
	StreamNames
}

// Basins makes, finds, changes and deletes basins.
type Basins interface {
	CreateBasin(ctx context.Context, name, location string, config tenancy.BasinConfig, token string) (tenancy.BasinInfo, tenancy.Outcome, error)
	EnsureBasin(ctx context.Context, name, location string, config tenancy.BasinConfig) (tenancy.BasinInfo, tenancy.Outcome, error)
	ReconfigureBasin(ctx context.Context, name string, patch tenancy.BasinPatch) (tenancy.BasinInfo, tenancy.BasinConfig, error)
	GetBasin(ctx context.Context, name string) (tenancy.BasinInfo, tenancy.BasinConfig, error)
	DeleteBasin(ctx context.Context, name string) (tenancy.BasinInfo, error)
	ListBasins(ctx context.Context, prefix, startAfter string, limit int) (tenancy.BasinPage, error)
}

// StreamNames makes, finds, changes and deletes the streams of basins.
type StreamNames interface {
	Resolve(ctx context.Context, basin, stream string, use tenancy.Use) (coordinator.StreamRef, error)
	ResolveFresh(ctx context.Context, basin, stream string, use tenancy.Use) (coordinator.StreamRef, error)
	CreateStream(ctx context.Context, basin, name string, settings tenancy.Settings, token string) (tenancy.StreamInfo, tenancy.Outcome, error)
	EnsureStream(ctx context.Context, basin, name string, settings tenancy.Settings) (tenancy.StreamInfo, tenancy.Outcome, error)
	ReconfigureStream(ctx context.Context, basin, name string, patch tenancy.Patch) (tenancy.StreamInfo, coordinator.StreamConfig, error)
	GetStream(ctx context.Context, basin, name string) (tenancy.StreamInfo, coordinator.StreamConfig, error)
	DeleteStream(ctx context.Context, basin, name string) (tenancy.StreamInfo, error)
	ListStreams(ctx context.Context, basin, prefix, startAfter string, limit int) (tenancy.StreamPage, error)
}

// handler serves the API. Its methods may be called at once.
type handler struct {
	o         Options
	routing   *router
	server    string
	metrics   *metrics
	scrape    http.Handler
	ready     *readiness
	budget    *bodyBudget
	pages     *pages
	streaming atomic.Int64
	anyone    *tenancy.Principal // who everybody is without authentication
	public    map[string]bool    // the paths that need no token
}

// New makes the handler of the whole API. It starts nothing; it may be served on many listeners at once. Who serves it
// bounds the size of request headers and the time that they may take (http.Server.MaxHeaderBytes, ReadHeaderTimeout),
// and sets no ReadTimeout or WriteTimeout, which would cut streams: the handler has deadlines of its own.
func New(o Options) (http.Handler, error) {
	if o.Streams == nil || o.Directory == nil {
		return nil, errors.New("make API handler: Streams and Directory are required")
	}
	o.setDefaults()
	h := &handler{
		o: o, metrics: newMetrics(&o), scrape: scrapeHandler(o.Registry),
		ready:  &readiness{probe: o.Streams.Ready, now: o.Now},
		budget: &bodyBudget{limit: o.BodyBytes},
		anyone: tenancy.Anyone(), public: map[string]bool{},
		pages: newPages(o.PageBytes),
	}
	if o.Version != "" {
		h.server = "tailrace/" + o.Version
	}
	h.routing = h.router()
	return h, nil
}

// waiting is unary for a read that may wait for a revision.
func (h *handler) waiting(x *exchange, r *http.Request, t *terms) (context.Context, context.CancelFunc) {
	if t.Min == nil {
		return h.unary(r)
	}
	good, end := h.whileGood(r.Context(), x)
	ctx, cancel := context.WithTimeout(good, h.o.RequestTimeout+t.Timeout)
	return ctx, func() {
		cancel()
		end()
	}
}

// unary bounds a request that is not a stream, once its body is there.
func (h *handler) unary(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), h.o.RequestTimeout)
}
