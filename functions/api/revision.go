package api

import (
	"net/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// Every revision that a client is told goes through told, so that what a client knows a name by is decided in one place.
func (h *handler) told(x *exchange, r wire.Revision) string {
	r.Stream = x.principal.Shown(r.Stream)
	return r.String()
}

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
