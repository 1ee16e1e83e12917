package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Request is the payload of a direct invocation: what the HTTP API takes in paths, queries, headers and bodies, by the same
// names, in one JSON object. A member that is not here is refused, so that a misspelt condition is not lost.
type Request struct {
	// Operation is append, read, check-tail, fence, maintain, or request for any endpoint.
	Operation string `json:"operation"`
	// Basin and Stream say where; not for maintain.
	Basin  string `json:"basin,omitempty"`
	Stream string `json:"stream,omitempty"`
	// AccessToken is what a request's Authorization would bear.
	AccessToken string `json:"access_token,omitempty"`
	// EncryptionKey is that of an encrypted stream, in base64.
	EncryptionKey string `json:"encryption_key,omitempty"`
	// Format is raw (the default) or base64, of the records sent or asked for.
	Format string `json:"format,omitempty"`

	// Records, MatchSeqNum and FencingToken are an append; FencingToken alone a fence, where it may be empty.
	Records      json.RawMessage `json:"records,omitempty"`
	MatchSeqNum  *uint64         `json:"match_seq_num,omitempty"`
	FencingToken *string         `json:"fencing_token,omitempty"`

	// SeqNum, Timestamp or TailOffset start a read; the others bound it.
	SeqNum     *uint64 `json:"seq_num,omitempty"`
	Timestamp  *uint64 `json:"timestamp,omitempty"`
	TailOffset *uint64 `json:"tail_offset,omitempty"`
	Count      *uint64 `json:"count,omitempty"`
	Bytes      *uint64 `json:"bytes,omitempty"`
	Until      *uint64 `json:"until,omitempty"`
	Wait       *uint64 `json:"wait,omitempty"` // seconds
	Clamp      *bool   `json:"clamp,omitempty"`
	// Consistency, MinRevision and RevisionTimeoutMs are for reads that may be answered from a cache.
	Consistency       string  `json:"consistency,omitempty"`
	MinRevision       string  `json:"min_revision,omitempty"`
	RevisionTimeoutMs *uint64 `json:"revision_timeout_ms,omitempty"`

	// Method, Path (escaped), Query, Headers and Body are those of a request.
	Method  string            `json:"method,omitempty"`
	Path    string            `json:"path,omitempty"`
	Query   string            `json:"query,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

// Answer is what a direct invocation returns, also for requests that fail: only an event that is none fails the
// invocation itself.
type Answer struct {
	// Status is that of HTTP: 2xx succeeded.
	Status int `json:"status"`
	// Applied says of a failure whether it may have changed something: no or unknown.
	Applied string `json:"applied,omitempty"`
	// Revision names the state that a write has led to, or that a read reflects.
	Revision string `json:"revision,omitempty"`
	// Tail is the tail that a match_seq_num missed.
	Tail string `json:"tail,omitempty"`
	// RetryAfterMs is how long to wait before trying again.
	RetryAfterMs uint64 `json:"retry_after_ms,omitempty"`
	// Body is that of HTTP: the acknowledgement, the batch, the tail, or the error with its code and message. What is not
	// JSON is a string.
	Body json.RawMessage `json:"body,omitempty"`
}

// direct answers a direct invocation.
func (s *Server) direct(ctx context.Context, event []byte) (any, error) {
	var q Request
	if err := decodeStrict(event, &q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if q.Operation == "maintain" {
		if s.o.Name != Maintain {
			return nil, fmt.Errorf("%w: this is the function %s; the operation maintain belongs to maintain", ErrEvent, s.o.Name)
		}
		return s.maintain(ctx)
	}
	answer, cut := deadlines(ctx, direct)
	a, err := s.perform(ctx, answer, &q)
	if err != nil {
		return nil, err
	}
	s.settleBy(ctx, cut)
	return encode(a)
}

// decodeStrict reads one JSON object and nothing else.
func decodeStrict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// perform has a request answered by a time, as over HTTP. Errors match ErrEvent, or say that there is no answer.
func (s *Server) perform(ctx context.Context, by time.Time, q *Request) (Answer, error) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	c, err := q.call()
	if err != nil {
		return Answer{}, err
	}
	w := newRecorder(direct)
	r, err := c.request(ctx)
	if err != nil {
		wire.WriteError(w, err)
		return w.direct(), nil
	}
	if err := serve(s.mine(r), w, r); err != nil {
		return Answer{}, err
	}
	return w.direct(), nil
}

// call is the HTTP request that an operation stands for.
func (q *Request) call() (*call, error) {
	c := &call{method: q.Method, path: q.Path, query: q.Query, header: http.Header{}}
	records := "/v1/streams/" + escapeName(q.Stream) + "/records"
	switch q.Operation {
	case "append":
		c.method, c.path = http.MethodPost, records
		c.body = members("records", q.Records, "match_seq_num", q.MatchSeqNum, "fencing_token", q.FencingToken)
	case "read":
		c.method, c.path, c.query = http.MethodGet, records, q.readQuery()
	case "check-tail":
		c.method, c.path = http.MethodGet, records+"/tail"
	case "fence":
		c.method, c.path = http.MethodPut, "/v1/streams/"+escapeName(q.Stream)+"/fence"
		c.body = members("fencing_token", q.FencingToken)
	case "request":
		c.body = q.Body
	default:
		return nil, fmt.Errorf("%w: the operation %.40q is none of append, read, check-tail, fence, maintain and request", ErrEvent, q.Operation)
	}
	q.headers(c.header)
	if len(c.body) > 0 {
		c.set("Content-Type", wire.MediaJSON)
	}
	return c, nil
}

// escapeName makes a name one segment of a path.
func escapeName(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E") // as names they are refused, not as segments
	}
	return url.PathEscape(name)
}

func (c *call) set(name, value string) {
	if value != "" && c.header.Get(name) == "" {
		c.header.Set(name, value)
	}
}

func (q *Request) headers(h http.Header) {
	for name, value := range q.Headers {
		h.Set(name, value)
	}
	c := call{header: h}
	c.set(wire.HeaderBasin, q.Basin)
	c.set(wire.HeaderFormat, q.Format)
	c.set(wire.HeaderEncryptionKey, q.EncryptionKey)
	c.set(wire.HeaderConsistency, q.Consistency)
	c.set(wire.HeaderMinRevision, q.MinRevision)
	if q.RevisionTimeoutMs != nil {
		c.set(wire.HeaderRevisionTimeoutMs, strconv.FormatUint(*q.RevisionTimeoutMs, 10))
	}
	if q.AccessToken != "" {
		c.set("Authorization", "Bearer "+q.AccessToken)
	}
}

func (q *Request) readQuery() string {
	v := url.Values{}
	for name, n := range map[string]*uint64{
		"seq_num": q.SeqNum, "timestamp": q.Timestamp, "tail_offset": q.TailOffset,
		"count": q.Count, "bytes": q.Bytes, "until": q.Until, "wait": q.Wait,
	} {
		if n != nil {
			v.Set(name, strconv.FormatUint(*n, 10))
		}
	}
	if q.Clamp != nil {
		v.Set("clamp", strconv.FormatBool(*q.Clamp))
	}
	return v.Encode()
}

// members writes a JSON object of those values that are there.
func members(pairs ...any) []byte {
	object := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i].(string), pairs[i+1]
		switch v := value.(type) {
		case json.RawMessage:
			if v != nil {
				object[name] = v
			}
		case *uint64:
			if v != nil {
				object[name] = *v
			}
		case *string:
			if v != nil {
				object[name] = *v
			}
		}
	}
	body, err := encode(object)
	if err != nil {
		return nil // the raw part was valid JSON when it was decoded
	}
	return body
}

// direct turns what was recorded into the answer of a direct invocation.
func (w *recorder) direct() Answer {
	w.WriteHeader(http.StatusOK)
	a := Answer{
		Status: w.status, Applied: w.sent.Get(wire.HeaderApplied), Revision: w.sent.Get(wire.HeaderRevision), Tail: w.sent.Get(wire.HeaderTail),
	}
	a.RetryAfterMs, _ = strconv.ParseUint(w.sent.Get(wire.HeaderRetryAfterMs), 10, 64)
	body := w.body.Bytes()
	switch {
	case len(body) == 0:
	case json.Valid(body):
		a.Body = body
	default:
		a.Body, _ = encode(string(body)) // a string always encodes
	}
	return a
}
