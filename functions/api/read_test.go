package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/wire"
)

func TestBL025_TimeLookupStaysInTheStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("a")
	r.create("b")
	r.want(r.append("a", `{"records":[{"timestamp":100},{"timestamp":200}]}`), 200, "")
	r.want(r.append("b", `{"records":[{"timestamp":300},{"timestamp":400}]}`), 200, "")
	for _, clamp := range []string{"", "&clamp=true"} {
		a := r.want(r.read("a", "timestamp=250"+clamp), 416, "")
		if a.body != `{"tail":{"seq_num":2,"timestamp":200}}` {
			t.Errorf("body %s", a.body)
		}
	}
	a := r.want(r.read("a", "timestamp=250&clamp=true&wait=1"), 200, "")
	if got := decode[batch](t, a.body); len(got.Records) != 0 {
		t.Errorf("records %v", got.Records)
	}
}

func TestBL026_StampsNeverDecrease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for _, stamp := range []int{100, 50, 200} {
		r.want(r.append("s", fmt.Sprintf(`{"records":[{"timestamp":%d}]}`, stamp)), 200, "")
	}
	var got []uint64
	for _, rec := range r.records("s") {
		got = append(got, rec.Timestamp)
	}
	if fmt.Sprint(got) != "[100 100 200]" {
		t.Errorf("timestamps %v", got)
	}
	for at, want := range map[int]uint64{60: 0, 100: 0, 101: 2, 200: 2} {
		a := r.want(r.read("s", fmt.Sprintf("timestamp=%d&count=1", at)), 200, "")
		if got := decode[batch](t, a.body).Records[0].SeqNum; got != want {
			t.Errorf("timestamp %d starts at %d, want %d", at, got, want)
		}
	}
}

func TestBL029_ArrivalTimeIgnoresTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"s","config":{"timestamping":{"mode":"arrival","uncapped":true}}}`)), 201, "")
	now := time.Now()
	day := now.Add(24 * time.Hour).UnixMilli()
	r.want(r.append("s", fmt.Sprintf(`{"records":[{"timestamp":%d}]}`, day)), 200, "")
	r.want(r.read("s", fmt.Sprintf("timestamp=%d", now.Add(time.Hour).UnixMilli())), 416, "")
	a := r.want(r.read("s", fmt.Sprintf("seq_num=0&until=%d", now.Add(time.Minute).UnixMilli())), 200, "")
	if got := decode[batch](t, a.body).Records; len(got) != 1 {
		t.Errorf("records %v", got)
	}
}

func TestBL031_StartMustBeBeforeUntil(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_read":true}`)), 200, "")
	for _, accept := range []string{wire.MediaJSON, wire.MediaSSE, wire.MediaProto} {
		for _, query := range []string{"timestamp=10&until=10", "timestamp=11&until=10"} {
			r.want(r.read("s", query, with{"Accept", accept}), 422, "invalid")
		}
	}
	r.want(r.do("GET", "/v1/streams/s", nil), 404, "stream_not_found")
}

func TestBL034_BeyondTheTail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	a := r.want(r.append("s", `{"records":[{"timestamp":7},{"timestamp":9}]}`), 200, "")
	_ = a
	for _, query := range []string{"seq_num=2", "seq_num=102", "seq_num=18446744073709551615", "seq_num=2&clamp=true", "seq_num=9&clamp=true", "", "tail_offset=0"} {
		a := r.want(r.read("s", query), http.StatusRequestedRangeNotSatisfiable, "")
		if a.body != `{"tail":{"seq_num":2,"timestamp":9}}` || a.header.Get(wire.HeaderApplied) != "no" {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	r.want(r.read("s", "seq_num=3&wait=1"), http.StatusRequestedRangeNotSatisfiable, "")
	for _, query := range []string{"seq_num=2&wait=1", "seq_num=102&clamp=true&wait=1"} {
		a := r.want(r.read("s", query), 200, "")
		if got := decode[batch](t, a.body); len(got.Records) != 0 {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}

func TestBL041_EveryRecordCarriesItsOwnNumber(t *testing.T) {
	t.Parallel()
	room := coordinator.Room{MoveEntries: 8, MaxEntries: 24, InlineBatch: 64, MoveInline: 1 << 10, MaxInline: 4 << 10}
	r := newRig(t, change{coordinator: func(o *coordinator.Options) { o.Room = room }})
	r.create("s")
	const batches, each = 6, 50
	for b := range batches {
		var records []string
		for i := range each {
			records = append(records, fmt.Sprintf(`{"body":"%d"}`, b*each+i))
		}
		r.want(r.append("s", `{"records":[`+strings.Join(records, ",")+`]}`), 200, "")
	}
	check := func(from int) {
		for k := from; k < batches*each; k += 7 {
			a := r.want(r.read("s", fmt.Sprintf("seq_num=%d&count=1", k)), 200, "")
			got := decode[batch](t, a.body).Records[0]
			if got.SeqNum != uint64(k) || got.Body != fmt.Sprint(k) {
				t.Fatalf("asked for %d, got %+v", k, got)
			}
		}
	}
	check(0)
	r.want(r.append("s", trim(t, 123), with{"S2-Format", "base64"}), 200, "")
	check(123)
	a := r.want(r.read("s", "seq_num=5&count=1"), 200, "")
	if got := decode[batch](t, a.body).Records[0].SeqNum; got != 123 {
		t.Errorf("a start that was trimmed reads %d", got)
	}
}

func TestBL044_ContradictoryAndExtremeStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for _, query := range []string{"seq_num=0&tail_offset=1", "seq_num=0&timestamp=1", "timestamp=1&tail_offset=1"} {
		r.want(r.read("s", query), 422, "invalid")
	}
	for _, query := range []string{"tail_offset=5", "tail_offset=0", "seq_num=0", "timestamp=1", ""} {
		r.want(r.read("s", query), 416, "")
	}
	// At 0 an empty stream resolves, to its tail.
	r.want(r.read("s", "timestamp=0"), 200, "")
	for i := range 8 {
		r.want(r.append("s", fmt.Sprintf(`{"records":[{"body":"%d"}]}`, i)), 200, "")
	}
	first := func(query string) uint64 {
		a := r.want(r.read("s", query), 200, "")
		return decode[batch](t, a.body).Records[0].SeqNum
	}
	if got := first("tail_offset=999999"); got != 0 {
		t.Errorf("tail_offset beyond the start reads %d", got)
	}
	r.want(r.append("s", trim(t, 5), with{"S2-Format", "base64"}), 200, "")
	for _, query := range []string{"seq_num=2&count=1", "tail_offset=999999", "timestamp=0"} {
		if got := first(query); got != 5 {
			t.Errorf("%s reads %d", query, got)
		}
	}
}

func TestBL045_ALongPollIsCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t)
		r.want(r.do("PUT", "/v1/basins/"+basin, nil), 201, "")
		r.create("s")
		r.want(r.append("s", one), 200, "")
		for wait, want := range map[int]time.Duration{120: time.Minute, 5: 5 * time.Second, 4294967295: time.Minute} {
			begun := time.Now()
			a := r.send(r.request(t.Context(), "GET", fmt.Sprintf("/v1/streams/s/records?seq_num=1&wait=%d", wait), nil))
			if took := time.Since(begun); took != want {
				t.Errorf("wait=%d took %s", wait, took)
			}
			if got := decode[batch](t, r.want(a, 200, "").body); len(got.Records) != 0 {
				t.Errorf("records %v", got.Records)
			}
		}
		r.streams.Close()
	})
}

func TestALongPollReturnsTheFirstBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	got := make(chan answer, 1)
	go func() { got <- r.read("s", "wait=30") }()
	eventually(t, "the long poll waits", func() bool { return r.gauge("tailrace_http_requests_in_flight") == 1 })
	time.Sleep(50 * time.Millisecond) // it may not have read the tail yet; then it reads the batch, which is as well
	r.want(r.append("s", `{"records":[{"body":"x"},{"body":"y"}]}`), 200, "")
	a := <-got
	if a.status == 416 {
		t.Fatal("the read began after the append")
	}
	if b := decode[batch](t, r.want(a, 200, "").body); len(b.Records) != 2 || b.Tail == nil || b.Tail.SeqNum != 2 {
		t.Errorf("got %s", a.body)
	}
}

// Damage of stored data is a loud storage error for what it covers, and nothing else.
func TestBL064_DamageIsAStorageError(t *testing.T) {
	t.Parallel()
	room := coordinator.Room{MoveEntries: 8, MaxEntries: 24, InlineBatch: 8, MoveInline: 1 << 10, MaxInline: 4 << 10}
	r := newRig(t, change{coordinator: func(o *coordinator.Options) { o.Room = room; o.CacheBytes = 1 }})
	r.create("s")
	r.want(r.append("s", `{"records":[{"body":"long enough for a segment"}]}`), 200, "")
	r.objects.Decide(func(op, _ string) (bool, error) {
		if op == "get" {
			return false, nil // the store says that there is no such object
		}
		return true, nil
	})
	a := r.want(r.read("s", "seq_num=0"), 500, "storage")
	if a.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("applied %q", a.header.Get(wire.HeaderApplied))
	}
	if strings.Contains(a.body, "segments/") {
		t.Errorf("the client learns of objects: %s", a.body)
	}
	r.objects.Decide(nil)
	r.want(r.append("s", one), 200, "")
	r.want(r.read("s", "seq_num=1"), 200, "")
}

func TestBL068_EveryEncodingCarriesTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := []segments.Record{
		{Timestamp: 7, HasTimestamp: true, Headers: []segments.Header{{Name: []byte("a"), Value: []byte("b")}, {Name: []byte("a"), Value: nil}}, Body: []byte("x\u2028y")},
		{Timestamp: 0, HasTimestamp: true},
		{Headers: []segments.Header{{Name: []byte("é"), Value: []byte("\x00")}}, Body: []byte("€")},
	}
	var in wire.AppendInput
	for _, rec := range want {
		w := wire.AppendRecord{Timestamp: rec.Timestamp, HasTimestamp: rec.HasTimestamp, Body: rec.Body}
		for _, h := range rec.Headers {
			w.Headers = append(w.Headers, wire.Header(h))
		}
		in.Records = append(in.Records, w)
	}
	json, base64Format := jsonBody, with{"S2-Format", "base64"}
	forms := map[string][]with{"raw": {json}, "base64": {json, base64Format}, "proto": {{"Content-Type", wire.MediaProto}}}
	var seen []string
	for name, headers := range forms {
		r.create(name)
		var body []byte
		switch name {
		case "raw":
			body = wire.EncodeAppendInputJSON(nil, in, wire.FormatRaw)
		case "base64":
			body = wire.EncodeAppendInputJSON(nil, in, wire.FormatBase64)
		default:
			body = wire.EncodeAppendInputProto(nil, in)
		}
		r.want(r.append(name, string(body), headers...), 200, "")
		seen = append(seen, describeAll(t, r, name))
	}
	for _, s := range seen {
		if s != seen[0] {
			t.Errorf("read differently:\n%s\n%s", s, seen[0])
		}
	}
}

// describeAll reads a stream in every form, which must agree, and leaves out what the clock decides.
func describeAll(t *testing.T, r *rig, stream string) string {
	t.Helper()
	raw, err := wire.DecodeReadBatchJSON([]byte(r.read(stream, "seq_num=0").body), wire.FormatRaw)
	b64, err2 := wire.DecodeReadBatchJSON([]byte(r.read(stream, "seq_num=0", with{"S2-Format", "base64"}).body), wire.FormatBase64)
	proto, err3 := wire.DecodeReadBatchProto([]byte(r.read(stream, "seq_num=0", with{"Accept", wire.MediaProto}).body))
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	describe := func(b wire.ReadBatch) (s string) {
		for _, rec := range b.Records {
			s += fmt.Sprintf("%d %d %q %q\n", rec.SeqNum, min(rec.Timestamp, 10), rec.Headers, rec.Body)
		}
		return s
	}
	if describe(raw) != describe(b64) || describe(raw) != describe(proto) {
		t.Fatalf("forms differ:\n%s\n%s\n%s", describe(raw), describe(b64), describe(proto))
	}
	return describe(raw)
}
