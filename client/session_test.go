package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

func newTLS(t *testing.T, s *scripted) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.next))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// bodyOf is what an input appends.
func bodyOf(in wire.AppendInput) (all string) {
	for _, r := range in.Records {
		all += string(r.Body)
	}
	return all
}

func submit(t *testing.T, a *client.AppendSession, bodies ...string) (all []*client.Pending) {
	t.Helper()
	for _, body := range bodies {
		p, err := a.Submit(bounded(t), client.Batch{Records: []client.AppendRecord{text(body)}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// A session whose server goes after one acknowledgement of three: what was acknowledged stays so and is not sent again
// (BL-010), and the rest by the policy.
func TestN4_SessionLosesItsConnection(t *testing.T) {
	t.Parallel()
	cut := sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for range 3 {
			_, _ = in.NextInput()
		}
		_ = out.Ack(ackOf(0, 1))
		panic(http.ErrAbortHandler)
	})
	for name, test := range map[string]struct {
		policy client.AppendRetry
		again  string
	}{
		"All": {client.RetryAll, "bc"}, "NoSideEffects": {client.RetryNoSideEffects, ""}, "None": {client.RetryNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var again strings.Builder
			s := serve(t, cut, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
				for n := uint64(1); ; n++ {
					input, err := in.NextInput()
					if err != nil {
						return
					}
					again.WriteString(bodyOf(input))
					_ = out.Ack(ackOf(n, n+1))
				}
			}))
			a, err := s.stream(client.Options{}).WithRetry(test.policy).OpenSession(t.Context(), client.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all := submit(t, a, "a", "b", "c")
			closed := a.Close(bounded(t))
			for i, p := range all {
				_, err := p.Wait(bounded(t))
				fine := i == 0 || test.again != ""
				if (err == nil) != fine || client.Indefinite(err) == fine || errors.Is(err, client.ErrSkipped) != (!fine && i == 2) {
					t.Errorf("batch %d: %v", i, err)
				}
			}
			if again.String() != test.again || (closed == nil) != (test.again != "") {
				t.Errorf("sent again %q, closed with %v", again.String(), closed)
			}
		})
	}
}

// A conditional batch that was sent again and misses says so; what was behind it is in doubt as well.
func TestN4_ResentBatchMisses(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, _ *wire.FrameWriter) {
		_, _ = in.NextInput()
		_, _ = in.NextInput()
		panic(http.ErrAbortHandler)
	}), sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		_, _ = in.NextInput()
		_ = out.Terminal(&wire.SeqNumMismatch{Next: 2})
	}))
	a, err := s.stream(client.Options{}).WithRetry(client.RetryAll).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := submit(t, a, "a", "b")
	_, err = all[0].Wait(bounded(t))
	if miss := new(client.SequenceError); !errors.As(err, &miss) || !miss.Resent || miss.Tail != 2 || !client.Indefinite(err) {
		t.Errorf("the first: %v", err)
	}
	if _, err = all[1].Wait(bounded(t)); !errors.Is(err, client.ErrSkipped) || !client.Indefinite(err) {
		t.Errorf("the second: %v", err)
	}
	if _, err := a.Submit(bounded(t), client.Batch{Records: []client.AppendRecord{text("c")}}); !errors.Is(err, client.ErrSkipped) || client.Indefinite(err) {
		t.Errorf("submitted after the end: %v", err)
	}
}

// What a draining server refuses was not applied, and is sent again also where nothing in doubt may be.
func TestDefiniteRefusalIsResent(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		_, _ = in.NextInput()
		_ = out.Ack(ackOf(0, 1))
		_ = out.Terminal(draining)
	}), refuse(draining), sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for n := uint64(1); ; n++ {
			if _, err := in.NextInput(); err != nil {
				return
			}
			_ = out.Ack(ackOf(n, n+1))
		}
	}))
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range submit(t, a, "a", "b", "c", "d") {
		if ack, err := p.Wait(bounded(t)); err != nil || ack.Start.SeqNum != uint64(i) {
			t.Errorf("batch %d: %+v, %v", i, ack, err)
		}
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// A server that wants its sessions elsewhere gets no more batches, and what it has is waited for.
func TestAdvisedSessionMoves(t *testing.T) {
	t.Parallel()
	var first sync.WaitGroup
	first.Add(1)
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		defer first.Done()
		_, _ = in.NextInput()
		out.AdviseReconnect()
		_ = out.Ack(ackOf(0, 1))
		for {
			if _, err := in.NextInput(); err != nil {
				return // the client's half ends
			}
			t.Error("a batch after the advice")
		}
	}), sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		_, _ = in.NextInput()
		_ = out.Ack(ackOf(1, 2))
		_, _ = in.NextInput()
	}))
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"a", "b"} {
		if _, err := submit(t, a, body)[0].Wait(bounded(t)); err != nil {
			t.Error(err)
		}
		first.Wait()
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// An acknowledgement that does not come in time makes the connection count as dead.
func TestSilentSessionIsGivenUp(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, _ *wire.FrameWriter) {
		for {
			if _, err := in.NextInput(); err != nil {
				return
			}
		}
	}), sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		_, _ = in.NextInput()
		_ = out.Ack(ackOf(0, 1))
		_, _ = in.NextInput()
	}))
	a, err := s.stream(client.Options{AttemptTimeout: 100 * time.Millisecond}).WithRetry(client.RetryAll).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submit(t, a, "a")[0].Wait(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// An acknowledgement that is not of what was sent ends the session, and nobody knows what became of it.
func TestForeignAcknowledgements(t *testing.T) {
	t.Parallel()
	for name, acks := range map[string][]wire.AppendAck{
		"another size": {ackOf(0, 2)}, "backwards": {ackOf(5, 6), ackOf(3, 4)}, "one too many": {ackOf(0, 1), ackOf(1, 2), ackOf(2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
				_, _ = in.NextInput()
				_, _ = in.NextInput()
				for _, ack := range acks {
					_ = out.Ack(ack)
				}
				_, _ = in.NextInput()
			}))
			a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all := submit(t, a, "a", "b")
			<-a.Done()
			for i, p := range all {
				if _, err := p.Wait(bounded(t)); err != nil && !client.Indefinite(err) {
					t.Errorf("batch %d: %v", i, err)
				}
			}
			if err := a.Close(bounded(t)); err == nil {
				t.Error("the session ended well")
			}
		})
	}
}

// A session that asked for it outlives a miss, which is of one batch alone.
func TestN2_PerBatchConflicts(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(wire.HeaderConflicts) != wire.ConflictsPerBatch {
			t.Errorf("the session did not ask for it")
		}
		sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
			_, _ = in.NextInput()
			_, _ = in.NextInput()
			_ = out.Conflict(&wire.SeqNumMismatch{Next: 9})
			_ = out.Ack(ackOf(9, 10))
			_, _ = in.NextInput()
		})(w, r)
	})
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{PerBatchConflicts: true})
	if err != nil {
		t.Fatal(err)
	}
	all := submit(t, a, "a", "b")
	_, err = all[0].Wait(bounded(t))
	if miss := new(client.SequenceError); !errors.As(err, &miss) || miss.Tail != 9 || client.Indefinite(err) {
		t.Errorf("the miss: %v", err)
	}
	if ack, err := all[1].Wait(bounded(t)); err != nil || ack.Start.SeqNum != 9 {
		t.Errorf("the batch behind it: %+v, %v", ack, err)
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// Every submit resolves, whatever it races with (BL-015): closing, cut connections, the end of the context. Nothing is left
// running.
func TestBL015_EverySubmitResolves(t *testing.T) {
	t.Parallel()
	const rounds = 300
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		left := rand.IntN(20)
		for n := uint64(0); ; n++ {
			if _, err := in.NextInput(); err != nil {
				return
			}
			if left--; left < 0 {
				panic(http.ErrAbortHandler)
			}
			if out.Ack(ackOf(n, n+1)) != nil {
				return
			}
		}
	}))
	before := runtime.NumGoroutine()
	for round := range rounds {
		ctx, cancel := context.WithCancel(bounded(t))
		policy := client.AppendRetry(round % 3)
		a, err := s.stream(client.Options{}).WithRetry(policy).OpenSession(ctx, client.SessionOptions{InflightBatches: 4})
		if err != nil {
			t.Fatal(err)
		}
		var submitters sync.WaitGroup
		for range 4 {
			submitters.Go(func() {
				for {
					p, err := a.Submit(bounded(t), client.Batch{Records: []client.AppendRecord{text("x")}})
					if err != nil {
						if client.Indefinite(err) {
							t.Errorf("a submit that failed is in doubt: %v", err)
						}
						return
					}
					_, err = p.Wait(bounded(t))
					if errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("unresolved: %v", err)
					}
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // a random place to race with, not one to wait for
		if round%2 == 0 {
			cancel()
		}
		_ = a.Close(bounded(t))
		cancel()
		submitters.Wait()
	}
	s.CloseClientConnections()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+50; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}

// The number that a producer expects moves by acknowledgements alone (BL-013): what failed before it was applied is sent
// with the same condition again, and behind a failure another producer goes on at the right place.
func TestBL013_ExpectedMovesByAcknowledgements(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var matches []uint64
	take := func(in *wire.FrameReader) bool {
		input, err := in.NextInput()
		if err != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		matches = append(matches, *input.MatchSeqNum)
		return true
	}
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		take(in)
		_ = out.Ack(ackOf(5, 6))
		take(in)
		_ = out.Terminal(draining)
	}), sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		take(in)
		_ = out.Ack(ackOf(6, 7))
		take(in)
		_ = out.Terminal(wire.Errorf(wire.CodeInvalid, "no"))
	}))
	match := uint64(5)
	p, err := s.stream(client.Options{}).Produce(t.Context(), client.ProducerOptions{Match: &match, Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for range 3 {
		if _, err := p.Submit(bounded(t), text("x")); err != nil {
			t.Fatal(err)
		}
		last = p.Flush(bounded(t))
	}
	if code := new(client.Error); !errors.As(last, &code) || code.Code != wire.CodeInvalid || client.Indefinite(last) {
		t.Errorf("the last flush: %v", last)
	}
	if _, err := p.Submit(bounded(t), text("x")); !errors.Is(err, client.ErrSkipped) || client.Indefinite(err) {
		t.Errorf("submitted after the failure: %v", err)
	}
	if err := p.Close(bounded(t)); err == nil || p.Expected() != 7 {
		t.Errorf("closed with %v, expecting %d", err, p.Expected())
	}
	if got := fmt.Sprint(matches); got != "[5 6 6 7]" {
		t.Errorf("the conditions were %s", got)
	}
}

// A producer holds no more than it may, cuts batches by records and bytes, and sends a lone record after its linger.
func TestProducerBatches(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sizes []int
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for n := uint64(0); ; {
			input, err := in.NextInput()
			if err != nil {
				return
			}
			mu.Lock()
			sizes = append(sizes, len(input.Records))
			mu.Unlock()
			_ = out.Ack(ackOf(n, n+uint64(len(input.Records))))
			n += uint64(len(input.Records))
		}
	}))
	o := client.ProducerOptions{BatchRecords: 3, BatchBytes: 100, Linger: time.Hour}
	p, err := s.stream(client.Options{}).Produce(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 60)
	for _, body := range []string{"a", "b", "c", long, long, "d", "e"} {
		if _, err := p.Submit(bounded(t), text(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sizes); got != "[3 1 3]" {
		t.Errorf("batches of %s records", got)
	}
	if _, err := p.Submit(bounded(t), client.Bytes(make([]byte, client.MaxBatchBytes))); err == nil || client.Indefinite(err) {
		t.Errorf("a record that is too large: %v", err)
	}
	p, err = s.stream(client.Options{}).Produce(t.Context(), client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Submit(bounded(t), text("alone"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Wait(bounded(t)); err != nil || n != 0 {
		t.Errorf("the lone record: %d, %v", n, err)
	}
	_ = p.Close(bounded(t))
}

// A submit waits while too much is in flight, for as long as its context.
func TestSubmitWaitsForRoom(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for n := uint64(0); ; n++ {
			if _, err := in.NextInput(); err != nil {
				return
			}
			<-release
			_ = out.Ack(ackOf(n, n+1))
		}
	}))
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{InflightBytes: 20})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, a, "0123456789")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = a.Submit(ctx, client.Batch{Records: []client.AppendRecord{text("0123456789")}})
	if !errors.Is(err, context.DeadlineExceeded) || client.Indefinite(err) {
		t.Errorf("a submit without room: %v", err)
	}
	close(release)
	if _, err := submit(t, a, strings.Repeat("x", 1000))[0].Wait(bounded(t)); err != nil {
		t.Errorf("a batch of more than all the room: %v", err)
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// Closing waits no longer than it may; what is not resolved by then is in doubt.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, _ *wire.FrameWriter) {
		for {
			if _, err := in.NextInput(); err != nil {
				return
			}
		}
	}))
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := submit(t, a, "a")[0]
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := a.Close(ctx); err == nil {
		t.Error("closed well")
	}
	if _, err := p.Wait(bounded(t)); !client.Indefinite(err) {
		t.Errorf("the batch: %v", err)
	}
}

var _ io.Writer = flushing{}

// A batch that no frame holds is refused when it is submitted, and hurts no other. A producer cuts its batches so that none
// becomes one: small headers take twice their metered size on the wire.
func TestBatchesFitFrames(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for n := uint64(0); ; {
			input, err := in.NextInput()
			if err != nil {
				return
			}
			next := n + uint64(len(input.Records))
			_ = out.Ack(ackOf(n, next))
			n = next
		}
	}))
	header := client.Header{Name: []byte("n"), Value: []byte("v")}
	full := client.AppendRecord{Headers: slices.Repeat([]client.Header{header}, (client.MaxBatchBytes-8)/4)}
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := submit(t, a, "before")[0]
	_, err = a.Submit(bounded(t), client.Batch{Records: []client.AppendRecord{full, text(strings.Repeat("x", 1000))}})
	if err == nil || client.Indefinite(err) {
		t.Errorf("a batch beyond a frame: %v", err)
	}
	for _, p := range append(submit(t, a, "after"), before) {
		if _, err := p.Wait(bounded(t)); err != nil {
			t.Error(err)
		}
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
	p, err := s.stream(client.Options{}).Produce(t.Context(), client.ProducerOptions{Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	full.Headers = full.Headers[:len(full.Headers)/1000]
	for range 1200 {
		if _, err := p.Submit(bounded(t), full); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// The bit that Tailrace uses for conflicts is reserved in S2, and means nothing in a session that did not ask for it.
func TestReservedBitsAreIgnored(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sessionOf(func(in *wire.FrameReader, _ *wire.FrameWriter) {
			_, _ = in.NextInput()
			ack := wire.EncodeAckProto(nil, ackOf(0, 1))
			_, _ = flushing{w, http.NewResponseController(w)}.Write(append([]byte{0, 0, byte(len(ack) + 1), 0x0f}, ack...))
			_, _ = in.NextInput()
		})(w, r)
	})
	a, err := s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submit(t, a, "a")[0].Wait(bounded(t)); err != nil {
		t.Error(err)
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// A server that does not end a session behind its client's end is not waited for for ever: neither by Close, when all is
// resolved, nor by batches that are to go elsewhere.
func TestAnEndThatDoesNotCome(t *testing.T) {
	t.Parallel()
	never := func(advise bool, start uint64) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
				if advise {
					out.AdviseReconnect()
				}
				for n := start; ; n++ {
					if _, err := in.NextInput(); err != nil {
						<-r.Context().Done()
						return
					}
					_ = out.Ack(ackOf(n, n+1))
				}
			})(w, r)
		}
	}
	for name, attempts := range map[string]int{"once": 1, "again": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, never(attempts > 1, 0), never(false, 1))
			o := client.Options{AttemptTimeout: 200 * time.Millisecond, Retry: client.Retry{Attempts: attempts}}
			a, err := s.stream(o).OpenSession(t.Context(), client.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []string{"a", "b"} {
				if _, err := submit(t, a, body)[0].Wait(bounded(t)); err != nil {
					t.Error(err)
				}
			}
			if err := a.Close(bounded(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// To open a session is tried as often as a call is, for nothing was sent that could be there twice; and what will not pass
// is told at once.
func TestOpeningIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, refuse(draining), refuse(unavailable), sessionOf(func(in *wire.FrameReader, _ *wire.FrameWriter) { _, _ = in.NextInput() }))
	a, err := s.stream(client.Options{}).WithRetry(client.RetryNone).OpenSession(t.Context(), client.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(bounded(t)); err != nil {
		t.Error(err)
	}
	s = serve(t, refuse(&wire.FencingTokenMismatch{Installed: "other"}))
	_, err = s.stream(client.Options{}).OpenSession(t.Context(), client.SessionOptions{})
	if !errors.Is(err, client.ErrFenced) || client.Indefinite(err) || len(s.requests()) != 1 {
		t.Errorf("opened with %v after %d requests", err, len(s.requests()))
	}
}

// What a producer is still gathering when it ends resolves then, and not when its linger is over.
func TestLingeringRecordsResolve(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sessionOf(func(_ *wire.FrameReader, out *wire.FrameWriter) {
			select {
			case <-release:
				_ = out.Terminal(&wire.FencingTokenMismatch{Installed: "other"})
			case <-r.Context().Done():
			}
		})(w, r)
	})
	for name, end := range map[string]func(context.CancelFunc){
		"fenced": func(context.CancelFunc) { release <- struct{}{} }, "its context ends": func(cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := s.stream(client.Options{}).Produce(ctx, client.ProducerOptions{Linger: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Submit(bounded(t), text("x"))
		if err != nil {
			t.Fatal(err)
		}
		end(cancel)
		if _, err := r.Wait(bounded(t)); err == nil || client.Indefinite(err) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		_ = p.Close(bounded(t))
	}
}

// A submit that waits for room sends what takes it, whoever gathered that and however long it could linger.
func TestRoomIsNotHeldByALinger(t *testing.T) {
	t.Parallel()
	s := serve(t, sessionOf(func(in *wire.FrameReader, out *wire.FrameWriter) {
		for n := uint64(0); ; {
			input, err := in.NextInput()
			if err != nil {
				return
			}
			next := n + uint64(len(input.Records))
			_ = out.Ack(ackOf(n, next))
			n = next
		}
	}))
	p, err := s.stream(client.Options{}).Produce(t.Context(), client.ProducerOptions{Linger: time.Hour, InflightBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("x", 1500) // many enough to fill the room before they fill a batch
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 700 {
				if _, err := p.Submit(bounded(t), text(body)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := p.Close(bounded(t)); err != nil {
		t.Error(err)
	}
}

// Calls and sessions over TLS with roots of the caller's choice, both over HTTP/2, with compressed frames both ways.
func TestTLSForCallsAndSessions(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("compressible ", 1000)
	for name, how := range map[string]client.Compression{"none": client.CompressionNone, "zstd": client.CompressionZstd, "gzip": client.CompressionGzip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Content-Type") != wire.MediaS2S {
					acknowledge(0, 1)(w, r)
					return
				}
				w.Header().Set("Content-Type", wire.MediaS2S)
				control := http.NewResponseController(w)
				_ = control.Flush()
				out := wire.NewFrameWriter(flushing{w, control}, wire.NegotiateCompression(r.Header))
				if r.Method == http.MethodGet {
					_ = out.Batch([]wire.Record{{Body: []byte(body)}}, &client.Position{SeqNum: 1})
					return
				}
				if how != client.CompressionNone {
					var first [4]byte
					if _, err := io.ReadFull(r.Body, first[:]); err != nil || first[3]&0x60 != byte(how)<<5 {
						t.Errorf("a frame of flags %x, %v", first[3], err)
					}
					_, _ = io.CopyN(io.Discard, r.Body, int64(first[0])<<16|int64(first[1])<<8|int64(first[2])-1)
				} else if input, err := wire.NewFrameReader(r.Body).NextInput(); err != nil || bodyOf(input) != body {
					t.Errorf("got %d bytes, %v", len(bodyOf(input)), err)
				}
				_ = out.Ack(ackOf(0, 1))
			}
			s := &scripted{t: t, steps: []http.HandlerFunc{steps}}
			server := newTLS(t, s)
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			for _, config := range []*tls.Config{nil, {RootCAs: roots, NextProtos: []string{"http/1.1"}}} {
				c, err := client.New(server.URL, client.Options{TLS: config, Compression: how, Retry: client.Retry{Attempts: 1}})
				if err != nil {
					t.Fatal(err)
				}
				stream := c.Basin("scripted").Stream("s")
				_, err = stream.Append(bounded(t), text(body))
				a, err2 := stream.OpenSession(bounded(t), client.SessionOptions{})
				if trusted := config != nil; (err == nil) != trusted || (err2 == nil) != trusted || client.Indefinite(err) || client.Indefinite(err2) {
					t.Fatalf("trusted: %v; %v; %v", trusted, err, err2)
				}
				if config == nil {
					continue
				}
				if _, err := submit(t, a, body)[0].Wait(bounded(t)); err != nil {
					t.Error(err)
				}
				if err := a.Close(bounded(t)); err != nil {
					t.Error(err)
				}
				for r, err := range stream.Read(bounded(t), client.ReadOptions{}) {
					if err != nil || string(r.Body) != body {
						t.Errorf("read %d bytes, %v", len(r.Body), err)
					}
				}
				c.Close()
			}
			for _, r := range s.requests() {
				if r.ProtoMajor != 2 {
					t.Errorf("%s %s over %s", r.Method, r.URL, r.Proto)
				}
			}
			if n := len(s.requests()); n != 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
