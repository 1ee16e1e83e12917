package api_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

type opener = func(r *sessionRig, method, path string, headers ...with) *duplex

// The bytes of s2-api 10.5. The client has the headers of the answer before it sends anything, then alternates.
func TestAppendSessionSpeaksTheWorkedBytes(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t, change{coordinator: func(o *coordinator.Options) {
			o.Now = func() time.Time { return time.UnixMilli(1700000000000) }
		}})
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		for name, want := range map[string]string{
			"Content-Type": "s2s/proto", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": "",
		} {
			if got := d.header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		exchange := func(request, answer string) {
			t.Helper()
			if err := d.send(unhex(t, request)); err != nil {
				t.Fatal(err)
			}
			want := unhex(t, answer)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(d.body, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %x, %v, want %x", got, err, want)
			}
		}
		exchange("0000 0700 0a04 1a02 6869", "0000 2000 0a07 1080 d095 ffbc 3112 0908 0110 80d0 95ff bc31 1a09 0801 1080 d095 ffbc 31")
		exchange("0000 0700 0a04 1a02 6869", "0000 2200 0a09 0801 1080 d095 ffbc 3112 0908 0210 80d0 95ff bc31 1a09 0802 1080 d095 ffbc 31")
		r.fill("s", 2, 5)
		exchange(hex.EncodeToString(inputFrame(t, wire.AppendInput{Records: inputOf("x").Records, MatchSeqNum: u64(5)})),
			"0000 1980 019c"+hex.EncodeToString([]byte(`{"seq_num_mismatch":7}`)))
		d.wantEnd()
	})
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAppendSessionPipelines(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		const inputs = 400
		go func() {
			for i := range inputs {
				if d.send(inputFrame(t, inputOf(fmt.Sprint(2*i), fmt.Sprint(2*i+1)))) != nil {
					return // the test misses the acknowledgements
				}
			}
			_ = d.finish()
		}()
		for i := range uint64(inputs) {
			d.wantAck(2*i, 2*i+2)
		}
		d.wantEnd()
		for i, body := range r.bodiesOf("s") {
			if body != fmt.Sprint(i) {
				t.Fatalf("record %d is %q", i, body)
			}
		}
		r.quiet()
	})
}

func TestAppendSessionWithoutInputsEndsCleanly(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		d.halfClose()
		d.wantEnd()
		r.quiet()
	})
}

// An acknowledgement is not sent before the batch is durable, and the half-close does not lose it.
func TestAppendSessionAcknowledgesOnlyTheDurable(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.heads.Set(storetest.Always(storetest.HoldReply, "Commit"))
		d := open(r, "POST", recordsOfS).mustOpen()
		d.append(inputOf("a"))
		r.heads.WaitHeld(1)
		d.append(inputOf("b"))
		d.halfClose()
		came := make(chan error, 1)
		acks := make(chan wire.AppendAck, 3)
		go func() {
			for {
				a, err := d.ack()
				if err != nil {
					came <- err
					return
				}
				acks <- a
			}
		}()
		select {
		case a := <-acks:
			t.Errorf("acknowledged %+v before the store answered", a)
		case err := <-came:
			t.Fatalf("ended before the store answered: %v", err)
		case <-time.After(100 * time.Millisecond): // a wrong acknowledgement comes at once
		}
		r.heads.Set(nil)
		r.heads.Release(1)
		if err := <-came; err != io.EOF || len(acks) != 2 {
			t.Fatalf("%d acknowledgements, then %v", len(acks), err)
		}
		if got := r.bodiesOf("s"); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("stored %q", got)
		}
	})
}

// The first failure is told once, behind the acknowledgements before it, and nothing behind it is applied, sent already or
// not (S7).
func TestS7_TheFirstFailurePoisonsTheSession(t *testing.T) {
	t.Parallel()
	fence := wire.AppendRecord{Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte("mine")}
	huge := []byte{0xff, 0xff, 0xff, 0}
	for name, c := range map[string]struct {
		bad   []byte
		check func(err error) bool
	}{
		"missed match": {
			inputFrame(t, wire.AppendInput{Records: inputOf("x").Records, MatchSeqNum: u64(9)}),
			func(err error) bool { var e *wire.SeqNumMismatch; return errors.As(err, &e) && e.Next == 3 },
		},
		"another token": {
			inputFrame(t, wire.AppendInput{Records: inputOf("x").Records, FencingToken: text("other"), MatchSeqNum: u64(9)}),
			func(err error) bool {
				var e *wire.FencingTokenMismatch
				return errors.As(err, &e) && e.Installed == "mine"
			},
		},
		"no records":       {inputFrame(t, wire.AppendInput{}), isError(wire.CodeInvalid)},
		"too many records": {inputFrame(t, inputOf(slices.Repeat([]string{""}, 1001)...)), isError(wire.CodeInvalid)},
		"too large":        {inputFrame(t, inputOf(repeat("x", 1<<20))), isError(wire.CodeInvalid)},
		"long token":       {inputFrame(t, wire.AppendInput{Records: inputOf("x").Records, FencingToken: text(repeat("t", 37))}), isError(wire.CodeInvalid)},
		"unknown command": {inputFrame(t, wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("sing")}}}}}),
			isError(wire.CodeInvalid)},
		"oversize frame":      {huge, isError(wire.CodeBadFrame)},
		"frame of length 0":   {[]byte{0, 0, 0, 0}, isError(wire.CodeBadFrame)},
		"terminal frame":      {[]byte{0, 0, 3, 0x80, 1, 2}, isError(wire.CodeBadFrame)},
		"unknown compression": {[]byte{0, 0, 2, 0x60, 0}, isError(wire.CodeBadFrame)},
		"bad zstd":            {[]byte{0, 0, 4, 0x20, 1, 2, 3}, isError(wire.CodeBadFrame)},
		"bad gzip":            {[]byte{0, 0, 4, 0x40, 1, 2, 3}, isError(wire.CodeBadFrame)},
		"no protobuf":         {[]byte{0, 0, 3, 0, 0x0a, 0xff}, isError(wire.CodeBadFrame)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, open opener) {
				r := newSessionRig(t)
				r.create("s")
				d := open(r, "POST", recordsOfS).mustOpen()
				first := wire.AppendInput{Records: []wire.AppendRecord{{Body: []byte("0")}, fence}}
				after := inputFrame(t, inputOf("never"))
				b := slices.Concat(inputFrame(t, first), inputFrame(t, inputOf("2")), c.bad, after, after)
				if err := d.send(b); err != nil {
					t.Fatal(err)
				}
				d.wantAck(0, 2)
				d.wantAck(2, 3)
				if err := d.failure(); !c.check(err) {
					t.Errorf("the terminal frame tells %v", err)
				}
				_ = d.send(after) // the server may be gone
				r.quiet()
				if got := r.bodiesOf("s"); !slices.Equal(got, []string{"0", "mine", "2"}) {
					t.Errorf("stored %q", got)
				}
			})
		})
	}
}

func isError(code wire.Code) func(error) bool {
	return func(err error) bool {
		var e *wire.Error
		return errors.As(err, &e) && e.Code == code && e.Applied == wire.AppliedNo
	}
}

// A body that ends within a frame: what was whole is acknowledged, then the client is told.
func TestAppendSessionRefusesATruncatedFrame(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		whole := inputFrame(t, inputOf("hi"))
		for cut := 1; cut < len(whole); cut++ {
			r := newSessionRig(t)
			r.create("s")
			d := open(r, "POST", recordsOfS).mustOpen()
			if err := d.send(slices.Concat(whole, whole[:cut])); err != nil {
				t.Fatal(err)
			}
			d.halfClose()
			d.wantAck(0, 1)
			d.wantTerminal(wire.CodeBadFrame)
			r.quiet()
			if tail := r.tail("s"); tail != 1 {
				t.Fatalf("cut at %d: tail %d", cut, tail)
			}
		}
	})
}

// A client that goes away in the middle of a batch: the batch is not there, those before it are.
func TestAppendSessionOfAClientThatVanishes(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		d.append(inputOf("a"))
		d.wantAck(0, 1)
		large := inputFrame(t, inputOf(slices.Repeat([]string{repeat("x", 1000)}, 1000)...))
		if err := d.send(large[:len(large)/2]); err != nil {
			t.Fatal(err)
		}
		d.cut()
		r.quiet()
		if got := r.bodiesOf("s"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("stored %d records", len(got))
		}
	})
}

// A client that goes away with whole batches on their way: each is in or out, none is half there.
func TestAppendSessionVanishingLeavesWholeBatches(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		for round := range 20 {
			d := open(r, "POST", recordsOfS).mustOpen()
			for i := range 20 {
				in := inputOf(slices.Repeat([]string{fmt.Sprintf("%d/%d", round, i)}, 1+i)...)
				if i%5 == 4 {
					in.Records[0].Body = append(in.Records[0].Body, repeat(" ", 5000)...) // goes into a segment
				}
				d.append(in)
			}
			for range round % 4 {
				if _, err := d.ack(); err != nil {
					t.Fatal(err)
				}
			}
			d.cut()
		}
		r.quiet()
		stored := r.bodiesOf("s")
		for at := 0; at < len(stored); {
			var round, i int
			if _, err := fmt.Sscanf(stored[at], "%d/%d", &round, &i); err != nil {
				t.Fatal(err)
			}
			for k := range 1 + i {
				if at+k == len(stored) || strings.TrimRight(stored[at+k], " ") != fmt.Sprintf("%d/%d", round, i) {
					t.Fatalf("batch %d/%d is not whole at %d", round, i, at)
				}
			}
			at += 1 + i
		}
	})
}

func TestAppendSessionPreflightErrors(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.create("going")
		r.want(r.do("DELETE", "/v1/streams/going", nil), http.StatusAccepted, "")
		for _, c := range []struct {
			path   string
			header with
			status int
			code   string
		}{
			{recordsOfS, with{"S2-Basin", ""}, 400, "bad_header"},
			{recordsOfS, with{"S2-Encryption-Key", repeat("k", 45)}, 400, "bad_header"},
			{recordsOfS, with{wire.HeaderConflicts, "sometimes"}, 400, "bad_header"},
			{"/v1/streams/%2E/records", with{}, 400, "bad_path"},
			{"/v1/streams/unknown/records", with{}, 404, "stream_not_found"},
			{"/v1/streams/going/records", with{}, 409, "stream_deletion_pending"},
		} {
			var headers []with
			if c.header.name != "" {
				headers = append(headers, c.header)
			}
			begun := time.Now()
			d := open(r, "POST", c.path, headers...)
			first := make([]byte, 64<<10)
			n, err := d.body.Read(first)
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			a := answer{d.status, d.header, string(first[:n])} // of the first read alone, as one client does it
			r.want(a, c.status, c.code)
			if a.header.Get("Content-Type") != wire.MediaJSON || a.header.Get("Content-Length") != fmt.Sprint(n) ||
				a.header.Get(wire.HeaderApplied) != "no" {
				t.Errorf("%s: headers %v for %d bytes", c.path, a.header, n)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s: took %s without a byte of the body", c.path, took)
			}
			d.cut()
		}
	})
}

func TestAppendSessionCreatesTheStream(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_append":true}`)), 200, "")
		d := open(r, "POST", recordsOfS).mustOpen()
		d.append(inputOf("a"))
		d.wantAck(0, 1)
		d.halfClose()
		d.wantEnd()
		r.want(r.do("GET", "/v1/streams/s", nil), 200, "")
	})
}

func TestAppendSessionOfAStreamThatIsDeleted(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		d.append(inputOf("a"))
		d.wantAck(0, 1)
		r.want(r.do("DELETE", "/v1/streams/s", nil), http.StatusAccepted, "")
		d.append(inputOf("b"))
		if e := d.wantTerminal(wire.CodeStreamDeletionPending); e.Effect() != wire.AppliedNo {
			t.Errorf("applied %s", e.Effect())
		}
		r.quiet()
	})
}

// An outcome that stays unknown is told as that, and nothing behind it is applied without it.
func TestAppendSessionTellsDoubt(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t, change{coordinator: func(o *coordinator.Options) {
			o.DoubtTimeout, o.StoreTimeout = 50*time.Millisecond, 20*time.Millisecond
		}})
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		d.append(inputOf("a"))
		d.wantAck(0, 1)
		r.heads.Set(storetest.Always(storetest.Lose, "Commit", "Change"))
		d.append(inputOf("b"))
		d.append(inputOf("c"))
		if e := d.wantTerminal(wire.CodeUnavailable); e.Effect() != wire.AppliedUnknown {
			t.Errorf("applied %s", e.Effect())
		}
		r.heads.Set(nil)
		r.quiet()
		// The two may have gone in one commit.
		if got := strings.Join(r.bodiesOf("s"), ""); !strings.HasPrefix("abc", got) {
			t.Errorf("stored %q", got)
		}
	})
}

func TestAppendSessionEndsWhenTheServerDrains(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		idle := open(r, "POST", recordsOfS).mustOpen()
		busy := open(r, "POST", recordsOfS).mustOpen()
		r.heads.Set(storetest.Always(storetest.HoldReply, "Commit"))
		busy.append(inputOf("a"))
		r.heads.WaitHeld(1)
		drained := make(chan error, 1)
		go func() { drained <- r.streams.Drain(t.Context()) }()
		<-r.streams.Draining()
		idle.wantTerminal(wire.CodeServerDraining)
		busy.append(inputOf("b")) // may still be admitted, or not
		late := open(r, "POST", recordsOfS)
		body, _ := io.ReadAll(late.body)
		r.want(answer{late.status, late.header, string(body)}, http.StatusServiceUnavailable, "server_draining")
		r.heads.Set(nil)
		r.heads.Release(1)
		busy.wantAck(0, 1)
		acked := 1
		for {
			a, err := busy.ack()
			if err == nil && a.Start.SeqNum == 1 {
				acked++
				continue
			}
			if !isError(wire.CodeServerDraining)(err) {
				t.Errorf("the session ends with %v", err)
			}
			break
		}
		busy.wantEnd()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if tail := r.tail("s"); tail != uint64(acked) {
			t.Errorf("%d acknowledged, tail %d", acked, tail)
		}
		r.quiet()
	})
}

// Clients that write without a pause while the server drains: what was acknowledged is stored, and nothing else, and every
// session ends with the terminal frame.
func TestAppendSessionsDrainUnderLoad(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		const sessions = 8
		acked := make(chan int, sessions)
		var ready [sessions]chan struct{}
		for i := range sessions {
			d := open(r, "POST", recordsOfS).mustOpen()
			ready[i] = make(chan struct{})
			go func() {
				for d.send(inputFrame(t, inputOf("x"))) == nil { // fails when the session is over
				}
			}()
			go func() {
				n := 0
				var err error
				for {
					if _, err = d.ack(); err != nil {
						break
					}
					if n++; n == 10 {
						close(ready[i])
					}
				}
				if !isError(wire.CodeServerDraining)(err) {
					t.Errorf("session %d ends with %v", i, err)
				}
				acked <- n
			}()
		}
		for i := range sessions {
			<-ready[i]
		}
		if err := r.streams.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		total := 0
		for range sessions {
			total += <-acked
		}
		if tail := r.tail("s"); tail != uint64(total) {
			t.Errorf("%d acknowledged, tail %d", total, tail)
		}
		r.quiet()
	})
}

func TestAppendSessionTakesCompressedFrames(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS, with{"Accept-Encoding", "gzip, zstd"}).mustOpen()
		for i, c := range []wire.Compression{wire.CompressionZstd, wire.CompressionGzip, wire.CompressionNone} {
			var b bytes.Buffer
			if err := wire.NewFrameWriter(&b, c).Input(inputOf(repeat(fmt.Sprint(i), 5000))); err != nil {
				t.Fatal(err)
			}
			if (b.Len() < 1000) != (c != wire.CompressionNone) {
				t.Fatalf("the frame has %d bytes", b.Len())
			}
			if err := d.send(b.Bytes()); err != nil {
				t.Fatal(err)
			}
			d.wantAck(uint64(i), uint64(i)+1)
		}
		d.halfClose()
		d.wantEnd()
		for i, body := range r.bodiesOf("s") {
			if body != repeat(fmt.Sprint(i), 5000) {
				t.Errorf("record %d differs", i)
			}
		}
	})
}

// A session reads no further than its bounds while nothing becomes durable, and goes on afterwards.
func TestAppendSessionHoldsBackItsClient(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*api.Options){
		"batches": func(o *api.Options) { o.SessionBatches = 3 },
		"bytes":   func(o *api.Options) { o.SessionBytes = 1 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, open opener) {
				r := newSessionRig(t, change{api: bound})
				r.create("s")
				r.heads.Set(storetest.Always(storetest.Hold, "Commit"))
				d := open(r, "POST", recordsOfS).mustOpen()
				const inputs = 200
				var sent progress
				go func() {
					for range inputs {
						if d.send(inputFrame(t, inputOf(repeat("x", 200_000)))) != nil {
							return
						}
						sent.add()
					}
					_ = d.finish()
				}()
				r.heads.WaitHeld(1)
				// 40 MB in all; the kernel's buffers and the session hold a few.
				if n := sent.settled(); n > inputs/2 {
					t.Errorf("%d inputs were taken while nothing was stored", n)
				}
				r.heads.Set(nil)
				r.heads.Release(1)
				for i := range uint64(inputs) {
					d.wantAck(i, i+1)
				}
				d.wantEnd()
			})
		})
	}
}

// The bytes of frames that are being read are booked where those of unary bodies are.
func TestAppendSessionIsRefusedWhereBodiesAre(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t, change{api: func(o *api.Options) { o.BodyBytes = 100_000 }})
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		for i := range uint64(50) {
			d.append(inputOf(repeat("x", 50_000)))
			d.wantAck(i, i+1) // so what was read is given back
		}
		go func() { _ = d.send(inputFrame(t, inputOf(repeat("x", 500_000)))) }()
		if e := d.wantTerminal(wire.CodeHotServer); e.Effect() != wire.AppliedNo {
			t.Errorf("applied %s", e.Effect())
		}
		r.quiet()
		r.want(r.append("s", one), 200, "")
	})
}

// A session that is one too many is told so as an ordinary answer.
func TestAppendSessionsAreBounded(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t, change{api: func(o *api.Options) { o.MaxStreaming = 2 }})
		r.create("s")
		first := open(r, "POST", recordsOfS).mustOpen()
		open(r, "GET", recordsOfS).mustOpen()
		d := open(r, "POST", recordsOfS)
		body, _ := io.ReadAll(d.body)
		r.want(answer{d.status, d.header, string(body)}, http.StatusBadGateway, "hot_server")
		first.halfClose()
		first.wantEnd()
		eventually(t, "room for another", func() bool { return open(r, "POST", recordsOfS).status == 200 })
	})
}
