package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/recall"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// Every revision that a client is told goes through told, and every one that it demands through demanded: a client whose
// names get a prefix knows neither the prefix nor what lies outside it.
func (h *handler) told(x *exchange, r wire.Revision) string {
	r.Stream = x.principal.Shown(r.Stream)
	return r.String()
}

func (h *handler) demanded(x *exchange, r wire.Revision) wire.Revision {
	if r.Stream != "" {
		r.Stream = x.principal.Full(r.Stream)
	}
	return r
}

// viewer is on whose behalf a request is: what is remembered for one account is not shown to another, not even for as
// long as a name takes to change hands. What an account's tokens may read is checked before.
func (x *exchange) viewer() string { return string(x.principal.Account) }

// name says in the answer's head which state a write made, or which one a read shows.
func (h *handler) name(x *exchange, r wire.Revision) {
	x.Header().Set(wire.HeaderRevision, h.told(x, r))
}

// nameLast is name for the end of an answer that has begun: it becomes a trailer.
func (h *handler) nameLast(x *exchange, r wire.Revision) {
	x.Header().Set(http.TrailerPrefix+wire.HeaderRevision, h.told(x, r))
}

// revisionOf names a state of a stream by the v of its head.
func revisionOf(basin, stream string, ref coordinator.StreamRef, v uint64) wire.Revision {
	return wire.Revision{Basin: basin, Stream: stream, Incarnation: ref.Stream.String(), Version: v}
}

// streamRevision names what was done to a stream's name or config.
func streamRevision(basin string, s *tenancy.StreamInfo) wire.Revision {
	return revisionOf(basin, s.Name, s.Ref, s.V())
}

// basinRevision names a state of a basin's own row.
func basinRevision(b *tenancy.BasinInfo) wire.Revision {
	return wire.Revision{Basin: b.Name, Incarnation: b.ID.String(), Version: b.Version}
}

// terms are what a read says about the state that it wants to be served from (contracts X).
type terms struct {
	wire.ReadTerms
	maxAge time.Duration // 0 for a strong read
	viewer string
}

// termsOf reads the terms of a read whose query has been parsed.
func (h *handler) termsOf(x *exchange, r *http.Request, minQuery string) (t terms, err error) {
	if t.ReadTerms, err = wire.ReadTermsOf(r.Header, minQuery); err != nil || !t.Asked {
		return t, err
	}
	t.viewer = x.viewer()
	if t.Eventual {
		t.maxAge = h.o.MaxAge
		if t.MaxAge != nil {
			t.maxAge = min(t.maxAge, *t.MaxAge)
		}
	}
	if t.Min == nil {
		return t, nil
	}
	demanded := h.demanded(x, *t.Min)
	t.Min = &demanded
	var id segments.StreamID // ids of basins look the same
	if id.UnmarshalText([]byte(demanded.Incarnation)) != nil {
		return t, wire.Errorf(t.At, "the revision demanded has no incarnation that could be one")
	}
	return t, nil
}

// termsOfPath is termsOf for an endpoint that has no query of S2's.
func (h *handler) termsOfPath(x *exchange, r *http.Request) (terms, error) {
	minQuery := ""
	if strings.Contains(r.URL.RawQuery, "min_revision") {
		values, err := wire.ParseQuery(r.URL.RawQuery)
		if err == nil {
			minQuery, err = wire.MinRevisionOf(values)
		}
		if err != nil {
			return terms{}, err
		}
	}
	return h.termsOf(x, r, minQuery)
}

// about refuses a revision that says nothing about what is read (X11). A stream is empty where a basin is read.
func (t *terms) about(basin, stream string) error {
	switch {
	case t.Min == nil:
		return nil
	case t.Min.Basin != basin:
		return wire.Errorf(t.At, "the revision demanded is of another basin, and says nothing about this one")
	case t.Min.Stream != stream && stream == "":
		return wire.Errorf(t.At, "the revision demanded is of a stream, and says nothing about its basin's config")
	case t.Min.Stream != stream:
		return wire.Errorf(t.At, "the revision demanded is not of this stream, and says nothing about it")
	}
	return nil
}

// freshness is the terms as a coordinator takes them.
func (t *terms) freshness() coordinator.Freshness {
	f := coordinator.Freshness{MaxAge: t.maxAge, Viewer: t.viewer, Patience: t.Timeout}
	if t.Min != nil {
		f.MinV = t.Min.Version
	}
	return f
}

// shows names the state that an answer shows, to a client that asked.
func (h *handler) shows(x *exchange, t *terms, r wire.Revision, asOf time.Time) {
	if !t.Asked {
		return
	}
	h.name(x, r)
	h.aged(x, t, asOf)
}

// aged says how old at most the state is that an eventual read is answered from.
func (h *handler) aged(x *exchange, t *terms, asOf time.Time) {
	if t.Eventual {
		age := max(recall.Age(asOf), 0) + time.Millisecond - 1
		x.Header().Set(wire.HeaderAgeMs, strconv.FormatInt(age.Milliseconds(), 10))
	}
}

// onRevision is onStream for a read that demands a revision: the incarnation that the revision names, or none. It makes
// no stream, since a new one would not have the revision.
func (h *handler) onRevision(ctx context.Context, x *exchange, basin, stream string, use tenancy.Use, t *terms, do func(coordinator.StreamRef) error) error {
	if t.Min == nil {
		return h.onStream(ctx, basin, stream, use, do)
	}
	ref, err := h.o.Directory.Resolve(ctx, basin, stream, tenancy.Use{})
	if err != nil {
		return err
	}
	fresh := false
	if ref.Stream.String() != t.Min.Incarnation {
		if ref, err = h.o.Directory.ResolveFresh(ctx, basin, stream, tenancy.Use{}); err != nil {
			return err
		}
		fresh = true
	}
	if ref.Stream.String() == t.Min.Incarnation {
		if err = h.doAt(x, basin, stream, ref, do); fresh || !streamGone(err) {
			return err
		}
		next, err := h.o.Directory.ResolveFresh(ctx, basin, stream, tenancy.Use{})
		if err != nil {
			return err
		}
		ref = next
	}
	// The name has another life than the revision's, or none yet that could be read.
	v, err := h.o.Streams.View(ctx, ref, coordinator.Freshness{})
	if err != nil {
		return err
	}
	return &wire.RevisionNotReached{Current: h.told(x, revisionOf(basin, stream, ref, v.Head.V))}
}

// doAt does something on a stream, and says of a state that did not come which one there is.
func (h *handler) doAt(x *exchange, basin, stream string, ref coordinator.StreamRef, do func(coordinator.StreamRef) error) error {
	err := do(ref)
	var behind *coordinator.Behind
	if errors.As(err, &behind) {
		return &wire.RevisionNotReached{Current: h.told(x, revisionOf(basin, stream, ref, behind.V))}
	}
	return err
}

// view is a state of a stream that is fresh enough.
func (h *handler) view(ctx context.Context, x *exchange, basin, stream string, use tenancy.Use, t *terms) (v coordinator.View, r wire.Revision, err error) {
	err = h.onRevision(ctx, x, basin, stream, use, t, func(ref coordinator.StreamRef) (err error) {
		v, err = h.o.Streams.View(ctx, ref, t.freshness())
		r = revisionOf(basin, stream, ref, v.Head.V)
		return err
	})
	return v, r, err
}
