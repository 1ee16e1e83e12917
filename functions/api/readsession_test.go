package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// What is stored, one heartbeat on reaching the tail, then what is appended, each with the tail (s2-api 12).
func TestReadSessionCatchesUpAndFollows(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.fill("s", 0, 5)
		d := open(r, "GET", recordsOfS+"?seq_num=2").mustOpen()
		if got := d.header.Get("Content-Type"); got != wire.MediaS2S {
			t.Errorf("Content-Type is %q", got)
		}
		checkDense(t, d.wantRecords(2, 3), 2)
		d.wantHeartbeat(5)
		for i := range 3 {
			r.fill("s", 5+i, 1)
			checkDense(t, d.wantRecords(uint64(5+i), 1), 5+i)
		}
		d.cut()
		r.quiet()
	})
}

// The bytes of s2-api 10.5, and those of a record.
func TestReadSessionSpeaksTheWorkedBytes(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t, change{coordinator: func(o *coordinator.Options) {
			o.Now = func() time.Time { return time.UnixMilli(1700000000000) }
		}})
		r.create("s")
		r.fill("s", 0, 5)
		d := open(r, "GET", recordsOfS).mustOpen()
		want := unhex(t, "0000 0c00 1209 0805 1080 d095 ffbc 31")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(d.body, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("heartbeat %x, %v, want %x", got, err, want)
		}
		d = open(r, "GET", recordsOfS+"?seq_num=4&count=1").mustOpen()
		want = unhex(t, "0000 1a00 0a0c 0804 1080 d095 ffbc 3122 0134 1209 0805 1080 d095 ffbc 31")
		all, err := io.ReadAll(d.body)
		if err != nil || !bytes.Equal(all, want) {
			t.Fatalf("session %x, %v, want %x", all, err, want)
		}
	})
}

func TestReadSessionBounds(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.want(r.append("s", `{"records":[{"body":"0","timestamp":10},{"body":"1","timestamp":20},{"body":"2","timestamp":30}]}`), 200, "")
		for _, c := range []struct {
			query  string
			from   uint64
			bodies []string
		}{
			{"seq_num=0&count=2", 0, []string{"0", "1"}},
			{"seq_num=0&count=0", 0, nil},
			{"seq_num=0&bytes=26", 0, []string{"0", "1"}}, // 9 each
			{"seq_num=1&bytes=5", 1, nil},
			{"seq_num=0&until=30", 0, []string{"0", "1"}},
			{"timestamp=15&count=9", 1, []string{"1", "2"}},
			{"tail_offset=1&count=9", 2, []string{"2"}},
			{"seq_num=0&wait=0", 0, []string{"0", "1", "2"}},
			{"wait=0", 0, nil},
			{"seq_num=7&clamp=true&wait=0", 3, nil},
			{"timestamp=15&until=20", 1, nil},
		} {
			d := open(r, "GET", recordsOfS+"?"+c.query).mustOpen()
			got := d.wantRecords(c.from, uint64(len(c.bodies)))
			for i, rec := range got {
				if string(rec.Body) != c.bodies[i] {
					t.Errorf("%s: record %d is %q", c.query, i, rec.Body)
				}
			}
			d.wantEnd()
		}
		r.quiet()
	})
}

func TestReadSessionPreflightErrors(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.fill("s", 0, 1)
		for _, c := range []struct {
			path   string
			status int
			code   string
		}{
			{recordsOfS + "?seq_num=x", 400, "bad_query"},
			{recordsOfS + "?seq_num=0&tail_offset=0", 422, "invalid"},
			{recordsOfS + "?timestamp=5&until=5", 422, "invalid"},
			{recordsOfS + "?seq_num=2", 416, ""},
			{recordsOfS + "?seq_num=1&count=1", 416, ""},
			{recordsOfS + "?seq_num=9&clamp=true&count=1", 416, ""},
			{"/v1/streams/unknown/records", 404, "stream_not_found"},
		} {
			d := open(r, "GET", c.path)
			body, err := io.ReadAll(d.body)
			if err != nil {
				t.Fatal(err)
			}
			r.want(answer{d.status, d.header, string(body)}, c.status, c.code)
			if d.header.Get("Content-Type") != wire.MediaJSON || d.header.Get("Content-Length") != fmt.Sprint(len(body)) {
				t.Errorf("%s: headers %v", c.path, d.header)
			}
			if c.status == 416 && (!bytes.HasPrefix(body, []byte(`{"tail":{"seq_num":1,`)) || bytes.Contains(body, []byte("code"))) {
				t.Errorf("%s: %s", c.path, body)
			}
		}
	})
}

func TestReadSessionCreatesTheStream(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_read":true}`)), 200, "")
		d := open(r, "GET", recordsOfS).mustOpen()
		d.wantHeartbeat(0)
		r.fill("s", 0, 1)
		checkDense(t, d.wantRecords(0, 1), 0)
	})
}

func TestReadSessionEndsWithATerminalFrame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *sessionRig)
		code wire.Code
	}{
		"deletion": {func(r *sessionRig) {
			r.want(r.do("DELETE", "/v1/streams/s", nil), http.StatusAccepted, "")
		}, wire.CodeUnavailable},
		"draining": {func(r *sessionRig) { _ = r.streams.Drain(r.t.Context()) }, wire.CodeServerDraining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overBoth(t, func(t *testing.T, open opener) {
				r := newSessionRig(t, change{coordinator: func(o *coordinator.Options) {
					o.HeartbeatMin, o.HeartbeatMax = 50*time.Millisecond, 100*time.Millisecond
				}})
				r.create("s")
				r.fill("s", 0, 1)
				d := open(r, "GET", recordsOfS+"?seq_num=0").mustOpen()
				d.wantRecords(0, 1)
				d.wantHeartbeat(1)
				c.end(r)
				for {
					b, err := d.batch()
					if err == nil && len(b.Records) == 0 {
						continue // a heartbeat from before
					}
					if !isError(c.code)(err) {
						t.Errorf("the session ends with %v", err)
					}
					break
				}
				d.wantEnd()
				r.quiet()
			})
		})
	}
}

func TestReadSessionCompressesItsFrames(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		body := repeat("compressible ", 5000)
		r.want(r.append("s", `{"records":[{"body":"`+body+`"}]}`), 200, "")
		for accept, bits := range map[string]byte{"": 0, "br": 0, "gzip": 0x40, "zstd": 0x20, "gzip, zstd;q=0.1": 0x20} {
			d := open(r, "GET", recordsOfS+"?seq_num=0&count=1", with{"Accept-Encoding", accept}).mustOpen()
			all, err := io.ReadAll(d.body)
			if err != nil || len(all) < 5 || all[3] != bits || (len(all) < 5000) != (bits != 0) {
				t.Fatalf("%q: %d bytes, flags %x, %v", accept, len(all), all[3], err)
			}
			if d.header.Get("Content-Encoding") != "" {
				t.Errorf("%q: Content-Encoding is %s", accept, d.header.Get("Content-Encoding"))
			}
			d.frames = wire.NewAnswerReader(bytes.NewReader(all))
			if got := d.wantRecords(0, 1); string(got[0].Body) != body {
				t.Errorf("%q: another body", accept)
			}
		}
	})
}

// A batch of 1 MiB whose headers take twice their metered size comes in as many frames as it needs.
func TestReadSessionSplitsWhatNoFrameHolds(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		records := make([]wire.AppendRecord, 2)
		for i := range records {
			headers := make([]wire.Header, 131_000)
			for k := range headers {
				headers[k] = wire.Header{Name: []byte{byte('a' + i)}, Value: []byte{byte(k)}}
			}
			records[i].Headers = headers
		}
		d := open(r, "POST", recordsOfS).mustOpen()
		for i := range records {
			d.append(wire.AppendInput{Records: records[i : i+1]})
			d.wantAck(uint64(i), uint64(i)+1)
		}
		d.halfClose()
		d.wantEnd()
		d = open(r, "GET", recordsOfS+"?seq_num=0&count=2").mustOpen()
		for i, got := range d.wantRecords(0, 2) {
			if !slices.EqualFunc(got.Headers, records[i].Headers, func(a, b wire.Header) bool {
				return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value)
			}) {
				t.Errorf("record %d differs", i)
			}
		}
		d.wantEnd()
	})
}

// A record that fits what it is appended with, but not a frame with its number and time, is refused when it is appended,
// whatever way it comes. One a little smaller can be read back.
func TestRecordsThatNoSessionCouldDeliverAreRefused(t *testing.T) {
	t.Parallel()
	r := newSessionRig(t)
	r.create("s")
	small := wire.Header{Name: []byte("n"), Value: []byte("v")}
	of := func(headers int) wire.AppendInput {
		return wire.AppendInput{Records: []wire.AppendRecord{{Headers: slices.Repeat([]wire.Header{small}, headers)}}}
	}
	const most = (1<<20 - 8) / 4
	a := r.do("POST", recordsOfS, wire.EncodeAppendInputProto(nil, of(most)), with{"Content-Type", wire.MediaProto})
	r.want(a, 422, "invalid")
	d := r.openHTTP1("POST", recordsOfS).mustOpen()
	d.append(of(most - 10))
	d.wantAck(0, 1)
	d.append(of(most))
	d.wantTerminal(wire.CodeInvalid)
	d = r.openHTTP1("GET", recordsOfS+"?seq_num=0&count=1").mustOpen()
	if got := d.wantRecords(0, 1); len(got[0].Headers) != most-10 {
		t.Errorf("%d headers", len(got[0].Headers))
	}
}

// Hundreds of readers of the same records cost the store no more than a few.
func TestReadSessionsShareFetches(t *testing.T) {
	t.Parallel()
	r := newSessionRig(t)
	r.create("s")
	d := r.openHTTP1("POST", recordsOfS).mustOpen()
	const batches = 6 // with more, 200 clients take longer on a busy machine than they have for a frame
	for i := range uint64(batches) {
		d.append(inputOf(slices.Repeat([]string{repeat("x", 500)}, 200)...))
		d.wantAck(200*i, 200*i+200)
	}
	before := r.objects.Counts().Gets
	const readers = 200
	var wg sync.WaitGroup
	failed := make(chan error, readers)
	for range readers {
		q := r.request(t.Context(), "GET", recordsOfS+"?seq_num=0&wait=0", nil, with{"Content-Type", wire.MediaS2S})
		wg.Go(func() { failed <- readWhole(r, q, 200*batches) })
	}
	wg.Wait()
	for range readers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	// Each of the 6 segments is fetched, in a few pieces; not 200 times.
	if gets := r.objects.Counts().Gets - before; gets > 5*batches {
		t.Errorf("%d readers made %d fetches for %d segments", readers, gets, batches)
	}
}

func readWhole(r *sessionRig, q *http.Request, records int) error {
	answer, err := r.h2.RoundTrip(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	frames, n := wire.NewAnswerReader(answer.Body), 0
	for {
		f, err := frames.Next()
		switch {
		case err == io.EOF && n == records:
			return nil
		case err != nil:
			return fmt.Errorf("after %d records: %w", n, err)
		case f.Terminal:
			return errors.Join(errors.New("terminal frame"), f.Err())
		}
		b, err := wire.DecodeReadBatchProto(f.Payload)
		if err != nil {
			return err
		}
		n += len(b.Records)
	}
}
