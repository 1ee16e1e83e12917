package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The wire types of this file are written from the API's reference, not taken from the server, so that a mistake in
// the server's types shows here.

type record struct {
	SeqNum    uint64      `json:"seq_num"`
	Timestamp uint64      `json:"timestamp"`
	Headers   [][2]string `json:"headers"`
	Body      string      `json:"body"`
}

type position struct {
	SeqNum    uint64 `json:"seq_num"`
	Timestamp uint64 `json:"timestamp"`
}

type ack struct{ Start, End, Tail position }

type newRecord struct {
	Body      string      `json:"body"`
	Headers   [][2]string `json:"headers,omitempty"`
	Timestamp *uint64     `json:"timestamp,omitempty"`
}

type appendInput struct {
	Records      []newRecord `json:"records"`
	MatchSeqNum  *uint64     `json:"match_seq_num,omitempty"`
	FencingToken *string     `json:"fencing_token,omitempty"`
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// definite reports whether an error answer says that nothing was applied.
func (a answer) definite() bool { return a.header.Get("Tailrace-Applied") == "no" }

// client calls one server about one basin.
type client struct {
	url, basin string
	http       *http.Client
}

func newClient(url, basin string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}
	return &client{url: url, basin: basin, http: &http.Client{Transport: transport, Timeout: 60 * time.Second}}
}

// at is the same client at a server's new address.
func (c *client) at(url string) *client { return newClient(url, c.basin) }

// do sends one request and reads the answer. An error means that there was none, or not all of one.
func (c *client) do(ctx context.Context, method, path string, body any, header ...string) (answer, error) {
	var payload io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, payload)
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("s2-basin", c.basin)
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	return answer{response.StatusCode, response.Header, string(text)}, nil
}

func records(stream string) string { return "/v1/streams/" + url.PathEscape(stream) + "/records" }

func (c *client) append(ctx context.Context, stream string, in appendInput) (answer, error) {
	return c.do(ctx, http.MethodPost, records(stream), in)
}

// must fails the test unless there was an answer with the status, and decodes it into out if that is not nil.
func must(t *testing.T, status int, out any) func(answer, error) answer {
	t.Helper()
	return func(a answer, err error) answer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if a.status != status {
			t.Fatalf("answer is %v, want status %d", a, status)
		}
		if out != nil {
			if err := json.Unmarshal([]byte(a.body), out); err != nil {
				t.Fatalf("decode %v: %v", a, err)
			}
		}
		return a
	}
}

// create makes the client's basin and a stream in it.
func (c *client) create(t *testing.T, stream string) {
	t.Helper()
	must(t, 201, nil)(c.do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{"basin": c.basin}))
	c.createStream(t, stream)
}

func (c *client) createStream(t *testing.T, stream string) {
	t.Helper()
	must(t, 201, nil)(c.do(t.Context(), http.MethodPost, "/v1/streams", map[string]any{"stream": stream}))
}

func (c *client) mustAppend(t *testing.T, stream string, in appendInput) ack {
	t.Helper()
	var a ack
	must(t, 200, &a)(c.append(t.Context(), stream, in))
	return a
}

func (c *client) tail(t *testing.T, stream string) uint64 {
	t.Helper()
	var out struct{ Tail position }
	must(t, 200, &out)(c.do(t.Context(), http.MethodGet, records(stream)+"/tail", nil))
	return out.Tail.SeqNum
}

// readAll reads records from..to by unary reads, and fails unless their numbers are dense.
func (c *client) readAll(t *testing.T, stream string, from, to uint64) []record {
	t.Helper()
	var all []record
	for next := from; next < to; {
		var batch struct{ Records []record }
		must(t, 200, &batch)(c.do(t.Context(), http.MethodGet,
			fmt.Sprintf("%s?seq_num=%d&count=%d", records(stream), next, min(1000, to-next)), nil))
		if len(batch.Records) == 0 {
			t.Fatalf("a read of %s at %d, below the tail %d, brought nothing", stream, next, to)
		}
		for _, r := range batch.Records {
			if r.SeqNum != next {
				t.Fatalf("record %d of %s came where %d belongs", r.SeqNum, stream, next)
			}
			next++
		}
		all = append(all, batch.Records...)
	}
	return all
}

// bodies makes records of texts.
func bodies(texts ...string) []newRecord {
	var list []newRecord
	for _, text := range texts {
		list = append(list, newRecord{Body: text})
	}
	return list
}

// event is one server-sent event.
type event struct{ name, id, data string }

// events reads a text/event-stream as it comes.
type events struct{ lines *bufio.Scanner }

// longestEvent bounds a line: a batch of the largest records, escaped.
const longestEvent = 8 << 20

func newEvents(body io.Reader) *events {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), longestEvent)
	return &events{lines}
}

// next returns the next event. io.EOF says that the stream ended after whole events, another error that it was cut.
func (e *events) next() (event, error) {
	var got event
	for e.lines.Scan() {
		line := e.lines.Text()
		if line == "" && got != (event{}) {
			return got, nil
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "event":
			got.name = value
		case "id":
			got.id = value
		case "data":
			got.data += value
		}
	}
	if err := e.lines.Err(); err != nil {
		return event{}, err
	}
	if got != (event{}) {
		return event{}, io.ErrUnexpectedEOF
	}
	return event{}, io.EOF
}
