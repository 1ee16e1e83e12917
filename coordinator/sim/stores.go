package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// heads and objects are the stores as one process sees them: every call parks.
type (
	heads struct {
		p   *process
		who string // the client, if it is not the coordinator that calls
	}
	objects struct{ p *process }
)

var (
	_ coordinator.Heads = (*heads)(nil)
	_ segments.Objects  = (*objects)(nil)
)

// through parks a call until the scheduler has decided its fate.
func through[T any](ctx context.Context, c *call, exec func() (T, error), describe func(T) string) (value T, err error) {
	c.by += caller()
	c.deadline, _ = ctx.Deadline()
	c.exec = func() (func(), string) {
		v, e := exec()
		set := func() { value, err = v, e }
		if e != nil {
			return set, describeError(e)
		}
		return set, describe(v)
	}
	c.fail = func(e error) { err = e }
	if ctx.Err() != nil && c.deadline.IsZero() {
		return value, fmt.Errorf("%w: %w", coordinator.ErrNotApplied, ctx.Err())
	}
	c.p.w.park(c)
	return value, err
}

func describeError(err error) string {
	var r *coordinator.Refusal
	if errors.As(err, &r) {
		return "refused (" + r.Reason.String() + "): " + describeHead(r.Head)
	}
	return err.Error()
}

func describeHead(h coordinator.Head) string {
	s := fmt.Sprintf("v%d %s tail %d log %d", h.V, h.State, h.Tail, len(h.Log))
	for i := range h.Pages {
		s += fmt.Sprintf(" L%d[%d,%d)%s", h.Pages[i].Level, h.Pages[i].Page.Start, h.Pages[i].Page.End(), short(h.Pages[i].Page.Child))
	}
	if h.Horizon > 0 {
		s += " hz " + labelText(h.Horizon)
	}
	if h.Trim > 0 {
		s += fmt.Sprintf(" trim %d floor %d", h.Trim, h.Floor)
	}
	if h.TokenV > 0 {
		s += fmt.Sprintf(" token %q", h.Token)
	}
	if len(h.Cancelled) > 0 {
		s += fmt.Sprintf(" cancelled %d", len(h.Cancelled))
	}
	return s
}

// labelText is a label relative to the beginning of the simulation, since that is what a reader wants to compare.
func labelText(l segments.Label) string {
	return fmt.Sprintf("%+d", int64(l)-epoch.UnixMilli())
}

// epoch is when every bubble's clock starts.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func short(id segments.ObjectID) string {
	return fmt.Sprintf("%s/%x", labelText(id.Label()), id[6:8])
}

func describeEntries(entries []segments.Entry) string {
	var parts []string
	for i := range entries {
		e := &entries[i]
		s := fmt.Sprintf("%s.%d x%d", short(e.ID.Object), e.ID.Attempt, e.N)
		if e.Inline() {
			s += " inline"
		} else if e.Object != e.ID.Object {
			s += " in " + short(e.Object)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func (h *heads) call(op string, id segments.StreamID, what string) *call {
	return &call{p: h.p, op: op, on: h.p.w.streamName(id), by: h.who, what: what, writes: op != "Load"}
}

func (h *heads) Create(ctx context.Context, head coordinator.Head) error {
	_, err := through(ctx, h.call("Create", head.Stream, ""), func() (struct{}, error) {
		return struct{}{}, h.p.w.truth.create(head)
	}, func(struct{}) string { return "created" })
	return err
}

func (h *heads) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	return through(ctx, h.call("Load", id, ""), func() (coordinator.Head, error) { return h.p.w.truth.load(id) }, describeHead)
}

func (h *heads) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	sent := *c // the caller may reuse its own before a late one is carried out
	sent.Entries, sent.Trims = slices.Clone(c.Entries), slices.Clone(c.Trims)
	what := describeEntries(sent.Entries)
	if c.Match != nil {
		what += fmt.Sprintf(" match %d", *c.Match)
	}
	if c.Token != nil {
		what += fmt.Sprintf(" token %q", *c.Token)
	}
	return through(ctx, h.call("Commit", id, what), func() (coordinator.Head, error) { return h.p.w.truth.commit(id, &sent) }, describeHead)
}

func (h *heads) Splice(ctx context.Context, id segments.StreamID, s *coordinator.Splice) (coordinator.Head, error) {
	op, what := "Splice", ""
	sent := *s
	switch {
	case s.Move != nil:
		m := *s.Move
		sent.Move = &m
		op, what = "Move", fmt.Sprintf("%d entries from %d", len(m.Old), m.Base)
	case s.Retire != nil:
		r := *s.Retire
		sent.Retire = &r
		op, what = "Retire", fmt.Sprintf("to %d, horizon %s", r.NewBase, labelText(r.Horizon))
	}
	return through(ctx, h.call(op, id, what), func() (coordinator.Head, error) { return h.p.w.truth.splice(id, &sent) }, describeHead)
}

func (h *heads) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	sent := *c
	op, what := changeText(c)
	h.p.w.carries(ctx, c)
	return through(ctx, h.call(op, id, what), func() (coordinator.Head, error) { return h.p.w.truth.change(id, &sent) }, describeHead)
}

func changeText(c *coordinator.Change) (op, what string) {
	switch {
	case c.Fence != nil:
		return "Fence", fmt.Sprintf("%q if %d", c.Fence.Token, c.Fence.IfV)
	case c.Config != nil:
		return "Configure", fmt.Sprintf("%s if %d", c.Config.Config.Fencing, c.Config.IfV)
	case c.Bump != nil:
		return "Bump", fmt.Sprintf("if %d", c.Bump.IfV)
	case c.State != 0:
		return "State", c.State.String()
	case c.Trim != nil:
		return "Trim", fmt.Sprint(c.Trim.To)
	case c.RaiseFloor != 0:
		return "RaiseFloor", fmt.Sprint(c.RaiseFloor)
	case c.RaiseHorizon != 0:
		return "RaiseHorizon", labelText(c.RaiseHorizon)
	case len(c.Cancel) > 0:
		return "Cancel", fmt.Sprintf("%s.%d", short(c.Cancel[0].Object), c.Cancel[0].Attempt)
	case c.Clear != nil:
		return "Clear", fmt.Sprintf("%d, horizon %s", len(c.Clear.Seen), labelText(c.Clear.Horizon))
	}
	return "Lease", ""
}

func (o *objects) call(op, key, what string) *call {
	parts := strings.Split(strings.Trim(key, "/"), "/")
	on := parts[len(parts)-1]
	if id, err := segments.ParseObjectID(on); err == nil {
		on = short(id)
		op += strings.TrimSuffix(parts[len(parts)-2], "s")
	} else {
		on = ""
	}
	return &call{p: o.p, op: op, on: on, what: what, writes: !strings.HasPrefix(op, "Get") && !strings.HasPrefix(op, "List")}
}

func (o *objects) Put(ctx context.Context, key string, data []byte) error {
	data = slices.Clone(data)
	_, err := through(ctx, o.call("Put ", key, fmt.Sprint(len(data), "B")), func() (struct{}, error) {
		return struct{}{}, o.p.w.truth.put(key, data)
	}, func(struct{}) string { return "stored" })
	return err
}

func (o *objects) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return through(ctx, o.call("Get ", key, fmt.Sprintf("%d+%d", offset, length)), func() ([]byte, error) {
		return o.p.w.truth.objects.Get(context.Background(), key, offset, length)
	}, func(b []byte) string { return fmt.Sprint(len(b), "B") })
}

func (o *objects) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	return through(ctx, o.call("List", prefix, ""), func() ([]segments.ObjectInfo, error) {
		return o.p.w.truth.objects.List(context.Background(), prefix, startAfter, limit)
	}, func(l []segments.ObjectInfo) string { return fmt.Sprint(len(l), " objects") })
}

// Delete reports faults as a store does: for each key. A late deletion is one that was reported as failed.
func (o *objects) Delete(ctx context.Context, keys []string) map[string]error {
	keys = slices.Clone(keys)
	names := make([]string, len(keys))
	for i, k := range keys {
		id, _ := segments.ParseObjectID(k[strings.LastIndexByte(k, '/')+1:])
		names[i] = short(id)
	}
	_, err := through(ctx, o.call("Delete", "", strings.Join(names, " ")), func() (struct{}, error) {
		o.p.w.truth.remove(keys)
		return struct{}{}, nil
	}, func(struct{}) string { return "deleted" })
	if err == nil {
		return nil
	}
	failed := make(map[string]error)
	for _, k := range keys {
		failed[k] = err
	}
	return failed
}
