package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Basin is a handle of a namespace of streams.
type Basin struct {
	c    *Client
	name string
	see  consistency
}

// Basin gives a handle of a basin, whether there is one of that name or not.
func (c *Client) Basin(name string) *Basin { return &Basin{c: c, name: name} }

// Name is the basin's name.
func (b *Basin) Name() string { return b.name }

// String names the basin.
func (b *Basin) String() string { return b.name }

// WithMinRevision gives a view whose listings show the creation or deletion that a revision names, or fail with a
// [RevisionError].
func (b *Basin) WithMinRevision(r Revision) *Basin {
	v := *b
	v.see.min = r
	return &v
}

// WithRevisionTimeout gives a view that lets the server wait for so long for a revision it demands: at most 30 s, 5 s if it
// is not said, 0 tries once.
func (b *Basin) WithRevisionTimeout(d time.Duration) *Basin {
	v := *b
	v.see.timeout = &d
	return &v
}

// WithEventual gives a view whose reads, and those of its streams, may be answered from a cache.
func (b *Basin) WithEventual() *Basin {
	v := *b
	v.see.eventual = true
	return &v
}

// Tracking gives a view that reads what it wrote: it, and the streams it gives, remember the newest revision that they got
// and demand it of later reads. Together with WithEventual reads come from caches wherever these are new enough.
func (b *Basin) Tracking() *Basin {
	v := *b
	v.see.tracked = new(tracker)
	return &v
}

// Provisioned tells of a basin or stream that a call made sure of.
type Provisioned[Info any] struct {
	Info Info
	// Result is "created", "updated" or "noop"; where the server does not say, it follows from its status.
	Result string
	// Revision names the state with it.
	Revision Revision
}

// The results of making sure of a basin or stream.
const (
	Created = wire.ProvisionCreated
	Updated = wire.ProvisionUpdated
	Noop    = wire.ProvisionNoop
)

// BasinSpec says what a basin is to be.
type BasinSpec struct {
	// Config is nil for the defaults.
	Config *BasinConfig
	// Location is empty for the account's default.
	Location string
}

func (s BasinSpec) location() *string {
	if s.Location == "" {
		return nil
	}
	return &s.Location
}

// Create makes the basin; [ErrAlreadyExists] if there is one. A repeat of the same call by the client itself is recognised.
func (b *Basin) Create(ctx context.Context, spec BasinSpec) (Provisioned[BasinInfo], error) {
	h := http.Header{wire.HeaderRequestToken: {requestToken()}}
	body := encodeJSON(wire.CreateBasinRequest{Basin: b.name, Config: spec.Config, Location: spec.location()})
	return provision[BasinInfo](ctx, b.c, &b.see, jsonRequest("create basin", http.MethodPost, b.c.account.base+"/basins", h, body))
}

// Ensure makes the basin, or gives the one there is exactly this config: what spec leaves out becomes the default.
func (b *Basin) Ensure(ctx context.Context, spec BasinSpec) (Provisioned[BasinInfo], error) {
	body := encodeJSON(wire.EnsureBasinRequest{Config: spec.Config, Location: spec.location()})
	return provision[BasinInfo](ctx, b.c, &b.see, jsonRequest("ensure basin", http.MethodPut, b.path(), nil, body))
}

// Config is the basin's config.
func (b *Basin) Config(ctx context.Context) (config BasinConfig, err error) {
	err = b.c.callJSON(ctx, request{op: "get basin", method: http.MethodGet, url: b.path()}, &config)
	return config, err
}

// Reconfigure changes what change has, and gives the config that results.
func (b *Basin) Reconfigure(ctx context.Context, change BasinReconfiguration) (config BasinConfig, err error) {
	r := jsonRequest("reconfigure basin", http.MethodPatch, b.path(), nil, encodeJSON(change))
	err = b.c.callJSON(ctx, r, &config)
	return config, err
}

// Delete deletes the basin and what is in it, in the background: its name is free after a while. [ErrNotFound] if there is
// none.
func (b *Basin) Delete(ctx context.Context) (Revision, error) {
	return deleted(ctx, b.c, &b.see, request{op: "delete basin", method: http.MethodDelete, url: b.path(), effect: idempotent})
}

func (b *Basin) path() string { return b.c.account.base + "/basins/" + url.PathEscape(b.name) }

// ListOptions choose what is listed.
type ListOptions struct {
	// Prefix is that of all names listed; StartAfter is before the first of them, bytewise.
	Prefix, StartAfter string
	// PageSize is how many names one request asks for: at most 1,000, which is the default.
	PageSize int
	// Deleting lists also what is being deleted.
	Deleting bool
}

// Basins lists basins in the order of their names, as many requests as it takes. An error ends it.
func (c *Client) Basins(ctx context.Context, o ListOptions) iter.Seq2[BasinInfo, error] {
	return pages(o, func(after string) ([]BasinInfo, bool, error) {
		var page wire.ListBasinsResponse
		err := c.callJSON(ctx, request{op: "list basins", method: http.MethodGet, url: c.account.base + "/basins" + o.query(after)}, &page)
		return page.Basins, page.HasMore, err
	}, func(i *BasinInfo) (string, bool) { return i.Name, i.DeletedAt != nil })
}

// Streams lists the basin's streams in the order of their names, as many requests as it takes. An error ends it.
func (b *Basin) Streams(ctx context.Context, o ListOptions) iter.Seq2[StreamInfo, error] {
	return pages(o, func(after string) ([]StreamInfo, bool, error) {
		base, h := b.target()
		at := b.see.demand(h, "")
		var page wire.ListStreamsResponse
		r := request{op: "list streams", method: http.MethodGet, url: base + "/streams" + o.query(after), header: h, wait: b.see.wait(h)}
		a, err := b.c.call(ctx, r)
		if err != nil {
			b.see.failed(err, "")
			return nil, false, err
		}
		b.see.answered(a.header, "", at)
		err = a.decode(r.op, pure, &page)
		return page.Streams, page.HasMore, err
	}, func(i *StreamInfo) (string, bool) { return i.Name, i.DeletedAt != nil })
}

// target is where requests about the basin's streams go, and the header that names it.
func (b *Basin) target() (base string, h http.Header) {
	base, byHeader := b.c.basins.of(b.name)
	h = http.Header{}
	if byHeader {
		h.Set(wire.HeaderBasin, b.name)
	}
	return base, h
}

func (o ListOptions) query(after string) string {
	q := url.Values{}
	if o.Prefix != "" {
		q.Set("prefix", o.Prefix)
	}
	if after != "" {
		q.Set("start_after", after)
	}
	if o.PageSize > 0 {
		q.Set("limit", strconv.Itoa(o.PageSize))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// pages goes through a listing page by page. look gives the name of an item and whether it is being deleted.
func pages[T any](o ListOptions, page func(after string) ([]T, bool, error), look func(*T) (string, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		after := o.StartAfter
		for {
			items, more, err := page(after)
			if err == nil {
				err = checkPage(items, more, after, look)
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for i := range items {
				name, deleting := look(&items[i])
				after = name
				if (!deleting || o.Deleting) && !yield(items[i], nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// checkPage refuses a page behind which a listing cannot go on, or would go on for ever.
func checkPage[T any](items []T, more bool, after string, look func(*T) (string, bool)) error {
	if more && len(items) == 0 {
		return &Error{Op: "list", Message: "there is more, and the page has nothing to go on behind"}
	}
	for i := range items {
		name, _ := look(&items[i])
		if name <= after && after != "" {
			return &Error{Op: "list", Message: "the names are not in order"}
		}
		after = name
	}
	return nil
}
