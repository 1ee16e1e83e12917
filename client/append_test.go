package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// One call is one request, whatever becomes of it, and its error says whether it can have been applied.
func TestN3_OneShotIsOneAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step       http.HandlerFunc
		is         error
		indefinite bool
	}{
		"a miss":      {refuse(&wire.SeqNumMismatch{Next: 7}), client.ErrSequence, false},
		"fenced":      {refuse(&wire.FencingTokenMismatch{Installed: "other"}), client.ErrFenced, false},
		"draining":    {refuse(draining), client.ErrUnavailable, false},
		"in doubt":    {refuse(unavailable), client.ErrUnavailable, true},
		"no answer":   {hangUp, client.ErrUnavailable, true},
		"no ack":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("?")) }, nil, true},
		"another ack": {acknowledge(0, 5), nil, true},
		"no page":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, client.ErrUnavailable, true},
		"redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.step)
			stream := s.stream(client.Options{}).WithRetry(client.RetryAll)
			_, err := stream.AppendMatch(bounded(t), 3, text("x"))
			if err == nil || client.Indefinite(err) != test.indefinite || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v, indefinite: %v", err, client.Indefinite(err))
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The same over TLS and HTTP/2, whose transport repeats requests by itself where it can.
func TestN3_OneShotIsOneAttemptOverHTTP2(t *testing.T) {
	t.Parallel()
	s := &scripted{t: t, steps: []http.HandlerFunc{hangUp}}
	server := newTLS(t, s)
	c, err := client.New(server.URL, client.Options{Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Basin("scripted").Stream("s").AppendMatch(bounded(t), 3, text("x"))
	if err == nil || !client.Indefinite(err) || len(s.requests()) != 1 || s.requests()[0].ProtoMajor != 2 {
		t.Errorf("error %v, %d requests", err, len(s.requests()))
	}
}

// Nothing listens, so nothing was sent.
func TestUnsentIsDefinite(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c, err := client.New("http://"+listener.Addr().String(), client.Options{Retry: client.Retry{Attempts: 3, MinDelay: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Basin("scripted").Stream("s").Append(bounded(t), text("x"))
	if !errors.Is(err, client.ErrUnavailable) || client.Indefinite(err) {
		t.Errorf("error %v", err)
	}
}

// What is sent again is what the policy says, and after doubt the last answer does not hide it.
func TestAppendRetryPolicies(t *testing.T) {
	t.Parallel()
	miss := refuse(&wire.SeqNumMismatch{Next: 7})
	for name, test := range map[string]struct {
		policy     client.AppendRetry
		steps      []http.HandlerFunc
		requests   int
		fine       bool
		indefinite bool
	}{
		"none":                        {client.RetryNone, []http.HandlerFunc{refuse(draining), acknowledge(0, 1)}, 1, false, false},
		"none in doubt":               {client.RetryNone, []http.HandlerFunc{hangUp, acknowledge(0, 1)}, 1, false, true},
		"no side effects":             {client.RetryNoSideEffects, []http.HandlerFunc{refuse(draining), acknowledge(0, 1)}, 2, true, false},
		"no side effects in doubt":    {client.RetryNoSideEffects, []http.HandlerFunc{refuse(draining), refuse(unavailable), acknowledge(0, 1)}, 2, false, true},
		"no side effects, no answer":  {client.RetryNoSideEffects, []http.HandlerFunc{hangUp, acknowledge(0, 1)}, 1, false, true},
		"all":                         {client.RetryAll, []http.HandlerFunc{hangUp, refuse(unavailable), acknowledge(0, 1)}, 3, true, false},
		"N4: all, missed after doubt": {client.RetryAll, []http.HandlerFunc{hangUp, miss}, 2, false, true},
		"all, missed after none":      {client.RetryAll, []http.HandlerFunc{refuse(draining), miss}, 2, false, false},
		"all, refused after doubt":    {client.RetryAll, []http.HandlerFunc{hangUp, refuse(wire.Errorf(wire.CodeStreamNotFound, "gone"))}, 2, false, true},
		"permanent (BL-059)":          {client.RetryAll, []http.HandlerFunc{refuse(wire.Errorf(wire.CodeAuthn, "who?")), acknowledge(0, 1)}, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.steps...)
			match := uint64(0)
			_, err := s.stream(client.Options{}).WithRetry(test.policy).
				AppendBatch(bounded(t), client.Batch{Records: []client.AppendRecord{text("x")}, MatchSeqNum: &match})
			if (err == nil) != test.fine || client.Indefinite(err) != test.indefinite {
				t.Errorf("error %v, indefinite: %v", err, client.Indefinite(err))
			}
			if missed := new(client.SequenceError); errors.As(err, &missed) && (missed.Resent != test.indefinite || missed.Tail != 7) {
				t.Errorf("the miss is %+v", missed)
			}
			if n := len(s.requests()); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, refuse(draining))
	_, err := s.stream(client.Options{Retry: client.Retry{Attempts: 4, MinDelay: time.Millisecond}}).Append(bounded(t), text("x"))
	if n := len(s.requests()); n != 4 || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("%d requests: %v", n, err)
	}
}

// The server's word on when to come again is kept, and a wait that the context does not allow is not begun.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	limited := &wire.Error{Code: wire.CodeRateLimited, Message: "slow down", RetryAfter: 300 * time.Millisecond}
	s := serve(t, refuse(limited), acknowledge(0, 1))
	begun := time.Now()
	if _, err := s.stream(client.Options{}).Append(bounded(t), text("x")); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < limited.RetryAfter {
		t.Errorf("came again after %s", took)
	}
	limited.RetryAfter = time.Hour
	s = serve(t, refuse(limited))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := s.stream(client.Options{}).Append(ctx, text("x"))
	if !errors.Is(err, client.ErrRateLimited) || client.RetryAfterOf(err) != time.Hour || time.Since(begun) > 9*time.Second {
		t.Errorf("error %v after %s", err, time.Since(begun))
	}
}

// The context ends an attempt that hangs; what had arrived is in doubt.
func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		hang(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	_, err := s.stream(client.Options{}).WithRetry(client.RetryAll).Append(ctx, text("x"))
	if !errors.Is(err, context.Canceled) || !client.Indefinite(err) || len(s.requests()) != 1 {
		t.Errorf("error %v, %d requests", err, len(s.requests()))
	}
}

// An attempt that hangs is given up and made again, within the call.
func TestHungAttemptIsGivenUp(t *testing.T) {
	t.Parallel()
	s := serve(t, hang, acknowledge(0, 1))
	if _, err := s.stream(client.Options{AttemptTimeout: 200 * time.Millisecond}).WithRetry(client.RetryAll).Append(bounded(t), text("x")); err != nil {
		t.Error(err)
	}
}

// A view presents its token on every append, and a batch that has one keeps it.
func TestN15_PresentingPresentsOnEveryAppend(t *testing.T) {
	t.Parallel()
	var got []*string
	step := func(w http.ResponseWriter, r *http.Request) {
		body, _ := wire.ReadBody(r, wire.CodeBadProto)
		in, err := wire.DecodeAppendInputProto(body, wire.CodeBadProto)
		if err != nil {
			t.Error(err)
		}
		got = append(got, in.FencingToken)
		_, _ = w.Write(wire.EncodeAckProto(nil, ackOf(0, 1)))
	}
	s := serve(t, step)
	plain := s.stream(client.Options{})
	mine, own := plain.Presenting("mine"), "own"
	ctx := bounded(t)
	for _, call := range []func() error{
		func() error { _, err := plain.Append(ctx, text("x")); return err },
		func() error { _, err := mine.Append(ctx, text("x")); return err },
		func() error { _, err := mine.AppendMatch(ctx, 0, text("x")); return err },
		func() error { _, err := mine.Trim(ctx, 0); return err },
		func() error {
			_, err := mine.AppendBatch(ctx, client.Batch{Records: []client.AppendRecord{text("x")}, FencingToken: &own})
			return err
		},
		func() error { _, err := plain.Presenting("").Append(ctx, text("x")); return err },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"(none)", "mine", "mine", "mine", "own", ""}
	for i, token := range got {
		shown := "(none)"
		if token != nil {
			shown = *token
		}
		if shown != want[i] {
			t.Errorf("append %d presented %q, want %q", i, shown, want[i])
		}
	}
}
