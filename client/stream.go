package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Stream is a handle of a stream, with what its calls say beside their arguments.
type Stream struct {
	basin *Basin
	name  string
	see   consistency
	token *string // presented on every append
	key   sealed
	retry AppendRetry
}

// Stream gives a handle of a stream, whether there is one of that name or not. It takes over what the basin's view says
// about consistency.
func (b *Basin) Stream(name string) *Stream {
	see := b.see
	see.min = "" // it names a state of the basin's listing
	return &Stream{basin: b, name: name, see: see, retry: b.c.retry.Appends}
}

// Name is the stream's name, Basin the handle of its basin.
func (s *Stream) Name() string { return s.name }

// Basin is the handle that the stream's came from.
func (s *Stream) Basin() *Basin { return s.basin }

// String names the basin and the stream.
func (s *Stream) String() string { return s.basin.name + "/" + s.name }

// with is a copy to change.
func (s *Stream) with(change func(*Stream)) *Stream {
	v := *s
	change(&v)
	return &v
}

// Presenting gives a view that presents a fencing token on every append, unary and in sessions. A batch that is appended by
// itself and has a token of its own keeps it. Presenting a token never installs it: [Stream.Fence] does. The empty token is one like any other:
// it is right where none is installed.
func (s *Stream) Presenting(token string) *Stream {
	return s.with(func(v *Stream) { v.token = &token })
}

// WithMinRevision gives a view whose reads include the write that a revision names, or fail with a [RevisionError].
func (s *Stream) WithMinRevision(r Revision) *Stream {
	return s.with(func(v *Stream) { v.see.min = r })
}

// WithRevisionTimeout is as that of [Basin.WithRevisionTimeout].
func (s *Stream) WithRevisionTimeout(d time.Duration) *Stream {
	return s.with(func(v *Stream) { v.see.timeout = &d })
}

// WithEventual gives a view whose reads may be answered from a cache, a little behind. Reads are strong without it.
func (s *Stream) WithEventual() *Stream { return s.with(func(v *Stream) { v.see.eventual = true }) }

// Tracking is as [Basin.Tracking], for this stream alone.
func (s *Stream) Tracking() *Stream {
	return s.with(func(v *Stream) { v.see.tracked = new(tracker) })
}

// WithEncryptionKey gives a view that appends and reads with a key: 32 bytes in standard base64.
func (s *Stream) WithEncryptionKey(key Secret) *Stream {
	return s.with(func(v *Stream) { v.key = seal(key) })
}

// WithRetry gives a view with another policy for appends than the client's.
func (s *Stream) WithRetry(policy AppendRetry) *Stream {
	return s.with(func(v *Stream) { v.retry = policy })
}

// path is the URL of the stream, and the header that names its basin.
func (s *Stream) path() (string, http.Header) {
	base, h := s.basin.target()
	return base + "/streams/" + url.PathEscape(s.name), h
}

// records is the URL of the stream's records, with the headers that go with them.
func (s *Stream) records() (string, http.Header) {
	base, h := s.path()
	if s.key != nil {
		h.Set(wire.HeaderEncryptionKey, unseal(s.key))
	}
	return base + "/records", h
}

// request is one about the stream itself.
func (s *Stream) request(op, method, under string, e effect) request {
	base, h := s.path()
	return request{op: op, method: method, url: base + under, header: h, effect: e}
}

// read sends a request that reads, as the view says.
func (s *Stream) read(ctx context.Context, r request) (answer, Revision, error) {
	at := s.see.demand(r.header, s.name)
	r.wait += s.see.wait(r.header)
	a, err := s.basin.c.call(ctx, r)
	if err != nil {
		s.see.failed(err, s.name)
		return answer{}, "", err
	}
	return a, s.see.answered(a.header, s.name, at), nil
}

// Create makes the stream with a config over its basin's defaults, nil for none; [ErrAlreadyExists] if there is one. A
// repeat of the same call by the client itself is recognised.
func (s *Stream) Create(ctx context.Context, config *StreamConfig) (Provisioned[StreamInfo], error) {
	base, h := s.basin.target()
	h.Set(wire.HeaderRequestToken, requestToken())
	body := encodeJSON(wire.CreateStreamRequest{Stream: s.name, Config: config})
	return s.provision(ctx, jsonRequest("create stream", http.MethodPost, base+"/streams", h, body))
}

// Ensure makes the stream, or gives the one there is exactly this config: what it leaves out becomes the basin's default.
func (s *Stream) Ensure(ctx context.Context, config *StreamConfig) (Provisioned[StreamInfo], error) {
	path, h := s.path()
	if config == nil {
		config = new(StreamConfig)
	}
	return s.provision(ctx, jsonRequest("ensure stream", http.MethodPut, path, h, encodeJSON(config)))
}

// provision remembers the revision for the stream and for the basin's listing.
func (s *Stream) provision(ctx context.Context, r request) (Provisioned[StreamInfo], error) {
	p, err := provision[StreamInfo](ctx, s.basin.c, &s.basin.see, r)
	if err == nil {
		s.see.saw(s.name, p.Revision)
	}
	return p, err
}

// Config is the stream's config, with all that it takes from defaults.
func (s *Stream) Config(ctx context.Context) (config StreamConfig, err error) {
	a, _, err := s.read(ctx, s.request("get stream", http.MethodGet, "", pure))
	if err != nil {
		return config, err
	}
	err = a.decode("get stream", pure, &config)
	return config, err
}

// Reconfigure changes what change has, and gives the config that results.
func (s *Stream) Reconfigure(ctx context.Context, change StreamReconfiguration) (config StreamConfig, err error) {
	path, h := s.path()
	r := jsonRequest("reconfigure stream", http.MethodPatch, path, h, encodeJSON(change))
	a, err := s.basin.c.call(ctx, r)
	if err != nil {
		return config, err
	}
	s.see.observe(a.header, s.name)
	err = a.decode(r.op, r.effect, &config)
	return config, err
}

// Delete deletes the stream. Its name is free after a while, for another stream, which begins at 0. [ErrNotFound] if there
// is none.
func (s *Stream) Delete(ctx context.Context) (Revision, error) {
	revision, err := deleted(ctx, s.basin.c, &s.basin.see, s.request("delete stream", http.MethodDelete, "", idempotent))
	if err == nil && s.see.tracked != nil {
		s.see.tracked.lost(s.name, "")
	}
	return revision, err
}

// Tail is where a stream ends.
type Tail struct {
	// Position has the sequence number that the next record gets, and the last one's timestamp.
	Position
	// Revision names the state that the tail is of; empty from servers without revisions.
	Revision Revision
}

// CheckTail asks for the tail. It is linearizable: every append acknowledged before the call is included, unless the view
// is eventual.
func (s *Stream) CheckTail(ctx context.Context) (Tail, error) {
	a, revision, err := s.read(ctx, s.request("check tail", http.MethodGet, "/records/tail", pure))
	if err != nil {
		return Tail{}, err
	}
	var t wire.TailResponse
	err = a.decode("check tail", pure, &t)
	return Tail{Position: t.Tail, Revision: revision}, err
}
