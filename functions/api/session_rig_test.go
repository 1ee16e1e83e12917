package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// sessionRig is a rig whose sessions are opened over connections of the test's own.
type sessionRig struct {
	*rig
	dial func() (net.Conn, error)
	h2   *http.Transport
}

func newSessionRig(t testing.TB, changes ...change) *sessionRig {
	t.Helper()
	r := newRig(t, changes...)
	s := &sessionRig{rig: r, dial: func() (net.Conn, error) { return net.Dial("tcp", r.server.Listener.Addr().String()) }}
	s.prepareHTTP2(t)
	return s
}

// newBubbleRig is for tests in a bubble: its connections are pipes, which hold nothing that nobody reads, so its clock
// moves when all wait.
func newBubbleRig(t testing.TB, changes ...change) *sessionRig {
	t.Helper()
	r := newHandler(t, changes...)
	if a := r.do("PUT", "/v1/basins/"+basin, nil); a.status != http.StatusCreated && a.status != http.StatusOK {
		t.Fatalf("make basin: %d %s", a.status, a.body)
	}
	listener := &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: r.handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	s := &sessionRig{rig: r, dial: listener.dial}
	t.Cleanup(func() {
		_ = server.Close()
		<-served
		r.streams.Close()
	})
	s.prepareHTTP2(t)
	return s
}

func (r *sessionRig) prepareHTTP2(t testing.TB) {
	r.h2 = &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}, // so that one who does not read is soon noticed
		DialContext: func(context.Context, string, string) (net.Conn, error) { return r.dial() },
	}
	r.h2.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(r.h2.CloseIdleConnections)
}

type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *pipeListener) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.connections <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// duplex is a request that is being sent while its answer is being read.
type duplex struct {
	t      testing.TB
	status int
	header http.Header
	answer *http.Response
	body   io.Reader         // of the answer
	frames *wire.FrameReader // of body

	send   func(b []byte) error
	finish func() error // ends the request's body
	cut    func()       // goes away, in the middle of whatever
}

// transports are the ways to speak to the server: as a client that writes HTTP/1.1 to a socket and has the headers of the
// answer before it sends anything of its body, and over HTTP/2 with prior knowledge.
var transports = []struct {
	name string
	open func(r *sessionRig, method, path string, headers ...with) *duplex
}{
	{"http1", (*sessionRig).openHTTP1},
	{"http2", (*sessionRig).openHTTP2},
}

// overBoth runs a test over both transports.
func overBoth(t *testing.T, test func(t *testing.T, open func(r *sessionRig, method, path string, headers ...with) *duplex)) {
	t.Helper()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			test(t, tr.open)
		})
	}
}

const recordsOfS = "/v1/streams/s/records"

func sessionHeaders(headers []with) http.Header {
	h := http.Header{"S2-Basin": {basin}, "Content-Type": {wire.MediaS2S}}
	for _, w := range headers {
		if w.value == "" {
			h.Del(w.name)
			continue
		}
		h.Add(w.name, w.value)
	}
	return h
}

func (r *sessionRig) openHTTP1(method, path string, headers ...with) *duplex {
	r.t.Helper()
	conn, err := r.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(24 * time.Hour))
	r.t.Cleanup(func() { conn.Close() })
	h := sessionHeaders(headers)
	if method == http.MethodPost {
		h.Set("Transfer-Encoding", "chunked")
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: test\r\n", method, path)
	_ = h.Write(&head)
	head.WriteString("\r\n")
	if _, err := conn.Write(head.Bytes()); err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		r.t.Fatalf("read answer: %v", err)
	}
	return &duplex{
		t: r.t, answer: answer, status: answer.StatusCode, header: answer.Header, body: answer.Body, frames: wire.NewAnswerReader(answer.Body),
		send: func(b []byte) error {
			_, err := conn.Write(fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b))
			return err
		},
		finish: func() error { _, err := io.WriteString(conn, "0\r\n\r\n"); return err },
		cut:    func() { conn.Close() },
	}
}

func (r *sessionRig) openHTTP2(method, path string, headers ...with) *duplex {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	var (
		source io.Reader
		sink   *io.PipeWriter
	)
	if method == http.MethodPost {
		source, sink = io.Pipe()
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://test"+path, source)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header = sessionHeaders(headers)
	answer, err := r.h2.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != 2 {
		r.t.Fatalf("answered in %s", answer.Proto)
	}
	d := &duplex{t: r.t, answer: answer, status: answer.StatusCode, header: answer.Header, body: answer.Body, frames: wire.NewAnswerReader(answer.Body), cut: cancel}
	if sink != nil {
		d.send = func(b []byte) error { _, err := sink.Write(b); return err }
		d.finish = sink.Close
		d.cut = func() {
			cancel()
			_ = sink.CloseWithError(context.Canceled) // the transport waits for its source
		}
	}
	return d
}

// mustOpen checks that a session was opened.
func (d *duplex) mustOpen() *duplex {
	d.t.Helper()
	if d.status != http.StatusOK {
		body, _ := io.ReadAll(d.body)
		d.t.Fatalf("session not opened: %d %s", d.status, body)
	}
	return d
}

// inputFrame is an input as a frame.
func inputFrame(t testing.TB, in wire.AppendInput) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.NewFrameWriter(&b, wire.CompressionNone).Input(in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inputOf is an input of records with these bodies.
func inputOf(bodies ...string) wire.AppendInput {
	var in wire.AppendInput
	for _, b := range bodies {
		in.Records = append(in.Records, wire.AppendRecord{Body: []byte(b)})
	}
	return in
}

func (d *duplex) append(in wire.AppendInput) {
	d.t.Helper()
	if err := d.send(inputFrame(d.t, in)); err != nil {
		d.t.Fatalf("send input: %v", err)
	}
}

func (d *duplex) halfClose() {
	d.t.Helper()
	if err := d.finish(); err != nil {
		d.t.Fatalf("half-close: %v", err)
	}
}

// ack reads an acknowledgement, or the error of a terminal frame or of the connection; io.EOF at the clean end.
func (d *duplex) ack() (wire.AppendAck, error) {
	f, err := d.frames.Next()
	if err != nil {
		return wire.AppendAck{}, err
	}
	if err := f.Err(); err != nil {
		return wire.AppendAck{}, terminal{err}
	}
	return wire.DecodeAckProto(f.Payload)
}

// terminal marks an error that a terminal frame told.
type terminal struct{ error }

func (e terminal) Unwrap() error { return e.error }

// wantAck reads an acknowledgement of the records from..to.
func (d *duplex) wantAck(from, to uint64) {
	d.t.Helper()
	ack, err := d.ack()
	if err != nil {
		d.t.Fatalf("instead of the acknowledgement of %d: %v", from, err)
	}
	if ack.Start.SeqNum != from || ack.End.SeqNum != to || ack.Tail.SeqNum < to {
		d.t.Fatalf("acknowledgement %+v, want %d to %d", ack, from, to)
	}
}

// wantEnd reads the clean end.
func (d *duplex) wantEnd() {
	d.t.Helper()
	if f, err := d.frames.Next(); err != io.EOF {
		d.t.Fatalf("instead of the end: %+v, %v", f, err)
	}
}

// wantTerminal reads a terminal frame with a code, and the end of the body behind it.
func (d *duplex) wantTerminal(code wire.Code) *wire.Error {
	d.t.Helper()
	var e *wire.Error
	if err := d.failure(); !errors.As(err, &e) || e.Code != code {
		d.t.Fatalf("terminal frame with %v, want %s", err, code)
	}
	return e
}

// failure reads the one terminal frame and the end of the body behind it.
func (d *duplex) failure() error {
	d.t.Helper()
	f, err := d.frames.Next()
	if err != nil || !f.Terminal {
		d.t.Fatalf("instead of a terminal frame: %+v, %v", f, err)
	}
	told := f.Err()
	d.wantEnd()
	return told
}

// batch reads a frame of a read session.
func (d *duplex) batch() (wire.ReadBatch, error) {
	f, err := d.frames.Next()
	if err != nil {
		return wire.ReadBatch{}, err
	}
	if err := f.Err(); err != nil {
		return wire.ReadBatch{}, terminal{err}
	}
	return wire.DecodeReadBatchProto(f.Payload)
}

// wantBatch reads frames until there are n records from a number on, and fails on anything but batches with a tail.
func (d *duplex) wantRecords(from, n uint64) []wire.Record {
	d.t.Helper()
	var all []wire.Record
	for uint64(len(all)) < n {
		b, err := d.batch()
		if err != nil || len(b.Records) == 0 || b.Tail == nil {
			d.t.Fatalf("after %d records: %d records, tail %v, %v", len(all), len(b.Records), b.Tail, err)
		}
		for _, rec := range b.Records {
			if rec.SeqNum != from+uint64(len(all)) {
				d.t.Fatalf("record %d where %d belongs", rec.SeqNum, from+uint64(len(all)))
			}
			all = append(all, rec)
		}
	}
	return all
}

// wantHeartbeat reads a heartbeat with a tail.
func (d *duplex) wantHeartbeat(tail uint64) {
	d.t.Helper()
	b, err := d.batch()
	if err != nil || len(b.Records) > 0 || b.Tail == nil || b.Tail.SeqNum != tail {
		d.t.Fatalf("instead of a heartbeat at %d: %+v, %v", tail, b, err)
	}
}

// quiet waits until the rig has no session or event stream left.
func (r *sessionRig) quiet() {
	r.t.Helper()
	eventually(r.t, "the end of all sessions", func() bool { return r.gauge("tailrace_http_streaming") == 0 })
}

// bodiesOf reads a whole stream.
func (r *sessionRig) bodiesOf(stream string) []string {
	r.t.Helper()
	var all []string
	for tail := r.tail(stream); uint64(len(all)) < tail; {
		a := r.read(stream, fmt.Sprintf("seq_num=%d", len(all)))
		r.want(a, http.StatusOK, "")
		for _, rec := range decode[batch](r.t, a.body).Records {
			if rec.SeqNum != uint64(len(all)) {
				r.t.Fatalf("record %d where %d belongs", rec.SeqNum, len(all))
			}
			all = append(all, rec.Body)
		}
	}
	return all
}

// progress counts what another goroutine gets done.
type progress struct{ n atomic.Int64 }

func (p *progress) add() { p.n.Add(1) }

// settled waits until nothing has been done for a while, and says how much was.
func (p *progress) settled() int {
	last, since := p.n.Load(), time.Now()
	for time.Since(since) < 200*time.Millisecond {
		time.Sleep(5 * time.Millisecond)
		if n := p.n.Load(); n != last {
			last, since = n, time.Now()
		}
	}
	return int(last)
}

func u64(n uint64) *uint64 { return &n }

func text(s string) *string { return &s }

func repeat(s string, n int) string { return strings.Repeat(s, n) }
