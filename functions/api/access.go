package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/recall"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// Access is what the API needs of a tenancy.Accounts.
type Access interface {
	Authenticate(ctx context.Context, bearer string) (*tenancy.Principal, error)
	Issue(ctx context.Context, by *tenancy.Principal, spec tenancy.TokenSpec) (string, error)
	Revoke(ctx context.Context, by *tenancy.Principal, id string) error
	List(ctx context.Context, by *tenancy.Principal, prefix, after string, limit int) (tenancy.TokenPage, error)
}

// permit is what a route asks of whoever calls it. The zero permit lets nobody through.
type permit struct {
	// ops are operations that all must be permitted, on the names that the request has in its path and in s2-basin.
	ops []tenancy.Op
	// body says that the innermost name is in the body: the endpoint asks for it with may, once it has read it.
	body bool
	// public lets everybody through, without a token; operator only the holder of the root token.
	public, operator bool
}

// by is the permit of operations.
func by(ops ...tenancy.Op) permit { return permit{ops: ops} }

// named is the permit of an operation on what the body names.
func named(op tenancy.Op) permit { return permit{ops: []tenancy.Op{op}, body: true} }

var (
	public   = permit{public: true}
	operator = permit{operator: true}
)

// authenticate finds out who asks, before anything else of a request is looked at. Without Access everybody is the
// default account.
func (h *handler) authenticate(x *exchange, r *http.Request) (*http.Request, error) {
	x.principal = h.anyone
	if h.o.Access != nil {
		x.principal = nil // nobody, until it is known who
		if h.public[r.URL.Path] {
			return r, nil
		}
		bearer, err := bearerOf(r.Header)
		x.judged = time.Now()
		if err == nil {
			x.principal, err = h.o.Access.Authenticate(r.Context(), bearer)
		}
		if err != nil {
			return r, err
		}
		x.bearer = bearer
	}
	return r.WithContext(tenancy.WithPrincipal(r.Context(), x.principal)), nil
}

// stillGood asks again for the token of a request that has taken long to come: with one that is held back, nothing is done
// that the token no longer permits.
func (h *handler) stillGood(x *exchange, r *http.Request) error {
	if h.o.Access == nil || recall.Age(x.judged) < h.o.Recheck {
		return nil
	}
	x.judged = time.Now()
	_, err := h.o.Access.Authenticate(r.Context(), x.bearer)
	return err
}

// bearerOf is the token of the one header Authorization, which has the scheme as S2 clients write it.
func bearerOf(header http.Header) (string, error) {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", tenancy.ErrUnauthenticated
	}
	bearer, ok := strings.CutPrefix(values[0], "Bearer ")
	if !ok || bearer == "" {
		return "", tenancy.ErrUnauthenticated
	}
	return bearer, nil
}

// refuseUnread answers a request whose body has not been looked at. One that does not tell its size may be a session,
// whose client sends nothing before it has an answer; net/http would wait for it.
func (h *handler) refuseUnread(x *exchange, r *http.Request, err error) {
	if r.ContentLength < 0 {
		x.duplex(r)
		x.endReading(lingerTime)
	}
	h.fail(x, r, err)
}

// authorize asks whether a request may be served, before anything that it names is read: what is forbidden is refused
// alike whether it is there or not. The name of a stream in the path becomes its full name, so that nothing behind this
// needs to know of a prefix that is added.
func (h *handler) authorize(x *exchange, r *http.Request, p permit) error {
	switch {
	case p.public:
		return nil
	case x.principal == nil:
		return tenancy.ErrUnauthenticated
	case p.operator:
		if h.o.Access != nil && !x.principal.Operator {
			return tenancy.ErrDenied
		}
		return nil
	case len(p.ops) == 0:
		return tenancy.ErrDenied
	}
	permitted := x.principal.Scope.Permitted()
	for _, op := range p.ops {
		if !permitted.Has(op) {
			return tenancy.ErrDenied
		}
	}
	on, err := namedBy(x, r, p)
	if err != nil {
		return err
	}
	if p.body {
		if on.Basin != "" && !x.principal.Scope.Basins.Has(on.Basin) {
			return tenancy.ErrDenied
		}
		return nil
	}
	for _, op := range p.ops {
		if err := x.may(op, on); err != nil {
			return err
		}
	}
	return nil
}

// namedBy reads the names that a permit's operations are judged by. Names that are no names are refused as the endpoint
// would, in the same order.
func namedBy(x *exchange, r *http.Request, p permit) (on tenancy.Resource, err error) {
	var basin, stream, token bool
	for _, op := range p.ops {
		b, s, t := op.Needs()
		basin, stream, token = basin || b, stream || s, token || t
	}
	if basin && (!p.body || stream) {
		if on.Basin, err = basinNamed(r); err != nil {
			return on, err
		}
	}
	if p.body {
		return on, nil
	}
	if stream {
		if on.Stream, err = x.fullName(r.PathValue("stream"), wire.CodeBadPath); err != nil {
			return on, err
		}
		r.SetPathValue("stream", on.Stream)
	}
	if token {
		on.Token = r.PathValue("id")
		err = wire.CheckTokenID(on.Token, wire.CodeBadPath)
	}
	return on, err
}

// basinNamed is the basin of the path, or else the one that s2-basin addresses.
func basinNamed(r *http.Request) (string, error) {
	if r.PathValue("basin") != "" {
		return basinInPath(r)
	}
	return wire.BasinOf(r.Header)
}

// fullName is the name of the stream that the client calls so. It is checked as the client has it, and in full.
func (x *exchange) fullName(name string, at wire.Code) (string, error) {
	if err := wire.CheckStreamName(name, at); err != nil {
		return "", err
	}
	full := x.principal.Full(name)
	if len(full) > wire.StreamNameMax {
		return "", wire.Errorf(at, "with the prefix that the access token adds, the name has more than %d bytes", wire.StreamNameMax)
	}
	return full, nil
}

// may asks for an operation on a name that was in the body.
func (x *exchange) may(op tenancy.Op, on tenancy.Resource) error {
	if !x.principal.May(op, on) {
		return tenancy.ErrDenied
	}
	return nil
}

// mayCommand asks for the operations of the command records in a batch.
func (x *exchange) mayCommand(on tenancy.Resource, records []segments.Record) error {
	for i := range records {
		var op tenancy.Op
		switch command, err := segments.ParseCommand(&records[i]); {
		case err != nil:
			return err
		case command.Kind == segments.FenceCommand:
			op = tenancy.Fence
		case command.Kind == segments.TrimCommand:
			op = tenancy.Trim
		default:
			continue
		}
		if err := x.may(op, on); err != nil {
			return err
		}
	}
	return nil
}

// making is the use of a stream by whoever may create it, and one that creates nothing for others: to them an absent
// stream is absent, whatever its basin says.
func making(ctx context.Context, basin, stream string, use tenancy.Use) tenancy.Use {
	if tenancy.PrincipalOf(ctx).May(tenancy.CreateStream, tenancy.Resource{Basin: basin, Stream: stream}) {
		return use
	}
	return tenancy.Use{}
}

// fullQuery turns a listing of streams by the client's names into one by full names.
func (x *exchange) fullQuery(q *wire.ListQuery) {
	q.Prefix = x.principal.Full(q.Prefix)
	if q.StartAfter != "" {
		q.StartAfter = x.principal.Full(q.StartAfter)
	}
}

// view is the part of a listing that a principal may see.
type view struct {
	set   tenancy.NameSet
	whole bool // has_more is of the view
}

// viewOf limits a listing to the names in a set, so that the pages are those of the names that are shown. Where there can
// be one name or none, the listing is made all the same and costs what it does for everybody.
func viewOf(q *wire.ListQuery, set tenancy.NameSet) view {
	by, exact, ok := set.Narrow(q.Prefix)
	if ok {
		q.Prefix = by
	}
	if !ok || exact {
		q.Limit = 1
	}
	return view{set, ok && !exact}
}

func (v view) shows(name string) bool { return v.set.Has(name) }

func (v view) more(more bool) bool { return v.whole && more }

// authenticationEnded is why a context was ended, if it was because its token is no longer good or cannot be judged.
func authenticationEnded(ctx context.Context) error {
	var ended *tokenEnded
	if errors.As(context.Cause(ctx), &ended) {
		return ended.error
	}
	return nil
}
