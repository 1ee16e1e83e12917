package s3objects

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/segments"
)

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want          span
		length, where string
		bytes         int64 // -1: not believed
	}{
		"whole":                       {span{0, -1}, "10", "", 10},
		"empty":                       {span{0, -1}, "0", "", 0},
		"front":                       {span{0, 4}, "4", "bytes 0-3/10", 4},
		"middle":                      {span{3, 4}, "4", "bytes 3-6/10", 4},
		"cut at the end":              {span{8, 4}, "2", "bytes 8-9/10", 2},
		"to the end":                  {span{3, -1}, "7", "bytes 3-9/10", 7},
		"more than asked":             {span{3, 4}, "7", "bytes 3-9/10", 4},
		"whole for the front":         {span{0, 4}, "10", "", 4},
		"whole for the middle":        {span{3, 4}, "10", "", -1},
		"another place":               {span{3, 4}, "4", "bytes 2-5/10", -1},
		"too short":                   {span{3, 4}, "3", "bytes 3-5/10", -1},
		"too short, to the end":       {span{3, -1}, "4", "bytes 3-6/10", -1},
		"length and range differ":     {span{3, 4}, "5", "bytes 3-6/10", -1},
		"no length":                   {span{0, -1}, "", "", -1},
		"length below zero":           {span{0, -1}, "-1", "", -1},
		"no number":                   {span{0, -1}, "ten", "", -1},
		"size not told":               {span{3, 4}, "4", "bytes 3-6/*", -1},
		"other unit":                  {span{3, 4}, "4", "lines 3-6/10", -1},
		"range backwards":             {span{3, 4}, "4", "bytes 6-3/10", -1},
		"range beyond the size":       {span{3, 4}, "4", "bytes 3-6/5", -1},
		"more than an object may be":  {span{0, -1}, "1000000000000", "", -1},
		"sign":                        {span{3, 4}, "4", "bytes +3-6/10", -1},
		"number above 63 bits":        {span{3, 4}, "4", "bytes 3-6/99999999999999999999", -1},
		"an object of the limit":      {span{0, -1}, "268435456", "", segments.MaxObjectBytes},
		"a byte of an object too big": {span{0, 1}, "1", "bytes 0-0/1000000000000", 1},
	} {
		header := http.Header{}
		header.Set("Content-Length", c.length)
		if c.where != "" {
			header.Set("Content-Range", c.where)
		}
		n, err := readAnswer(header, c.want)
		if c.bytes < 0 {
			if !errors.Is(err, ErrMisbehaves) {
				t.Errorf("%s: %d, %v; want ErrMisbehaves", name, n, err)
			}
		} else if err != nil || n != c.bytes {
			t.Errorf("%s: %d, %v; want %d", name, n, err, c.bytes)
		}
	}
}

// FuzzReadAnswer: whatever the headers, what is taken is within what was asked for and what was sent.
func FuzzReadAnswer(f *testing.F) {
	f.Add("4", "bytes 3-6/10", int64(3), int64(4))
	f.Add("10", "", int64(0), int64(-1))
	f.Add("9223372036854775807", "bytes 0-4611686018427387902/4611686018427387903", int64(0), int64(-1))
	f.Add("1", "bytes 140737488355328-140737488355328/140737488355329", int64(beyond), int64(beyond))
	f.Fuzz(func(t *testing.T, length, where string, offset, n int64) {
		want := newSpan(max(0, offset), n)
		header := http.Header{"Content-Length": {length}, "Content-Range": {where}}
		got, err := readAnswer(header, want)
		if err != nil {
			return
		}
		if got < 0 || got > segments.MaxObjectBytes || want.length >= 0 && got > want.length {
			t.Errorf("%d bytes of %q, %q for %+v", got, length, where, want)
		}
	})
}

// FuzzHeaders reads the other headers that come from outside.
func FuzzHeaders(f *testing.F) {
	f.Add("120", "Mon, 02 Jan 2006 15:04:05 GMT", "AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request, SignedHeaders=host, Signature=s")
	f.Add("-1", "", "AWS4-HMAC-SHA256 ,,==")
	f.Fuzz(func(t *testing.T, after, date, authorization string) {
		if d := retryAfter(after); d < 0 || d > maxRetryAfter {
			t.Errorf("retryAfter(%q) = %v", after, d)
		}
		clock := storeClock{now: time.Now}
		clock.observe(time.Now(), http.Header{"Date": {date}})
		_ = clock.read()
		if credential, signed, ok := signatureParts(authorization); ok && (credential == "" || signed == "") {
			t.Errorf("signatureParts(%q) = %q, %q", authorization, credential, signed)
		}
	})
}

// TestStartWithin: the start that is sent has the same keys after it, and is one that every store takes.
func TestStartWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[-._/0AZaz]{0,6}`)
		odd := rapid.SampledFrom([]string{"", "", ".", "..", "/.", "/../", "./", "~", " ", "\x00", "\xff", ":", "^", "`", "é", "+"})
		prefix := rapid.SampledFrom([]string{"", "a/", "a/-/", "z/"}).Draw(t, "prefix")
		start := rapid.OneOf(part, rapid.Custom(func(t *rapid.T) string {
			return prefix + part.Draw(t, "front") + odd.Draw(t, "odd") + part.Draw(t, "back")
		})).Draw(t, "start")
		key := rapid.Custom(func(t *rapid.T) string { return prefix + part.Draw(t, "key") })
		keys := rapid.SliceOf(key.Filter(func(k string) bool { return segments.CheckKey(k) == nil })).Draw(t, "keys")
		after, any := startWithin(prefix, start)
		for _, key := range keys {
			if got, want := any && key > after, key > start; got != want {
				t.Fatalf("startWithin(%q, %q) = %q, %v: key %q after it is %v, want %v", prefix, start, after, any, key, got, want)
			}
		}
		plain := func(part string) bool { return part != "." && part != ".." && strings.Trim(part, keyBytes+"~") == "" }
		if after != "" && !strings.HasPrefix(after, prefix) || !all(strings.Split(after, "/"), plain) {
			t.Fatalf("startWithin(%q, %q) = %q, which not every store takes", prefix, start, after)
		}
	})
}

func all(parts []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !ok(part) })
}

// TestClockReadings: dates that are none, or are from a cache, say nothing.
func TestClockReadings(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := storeClock{now: func() time.Time { return now }}
	clock.observe(now.Add(-time.Second), http.Header{"Date": {now.Add(time.Hour).Format(http.TimeFormat)}})
	want := Clock{Offset: time.Hour + time.Second, Seen: now}
	if got := clock.read(); got != want {
		t.Errorf("Clock = %+v, want %+v", got, want)
	}
	for _, h := range []http.Header{
		{}, {"Date": {"today"}}, {"Date": {now.Add(-time.Hour).Format(http.TimeFormat)}, "Age": {"3600"}},
	} {
		clock.observe(now, h)
		if got := clock.read(); got != want {
			t.Errorf("Clock = %+v after %v", got, h)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempts := 1; attempts <= 40; attempts++ {
		for _, p := range []pause{pauseNone, pauseShort, pauseLong} {
			d := backoff(p, attempts)
			if p == pauseNone && d != 0 || p != pauseNone && (d <= 0 || d > maxPause) {
				t.Errorf("backoff(%d, %d) = %v", p, attempts, d)
			}
		}
	}
	if backoff(pauseLong, 1) < longPause/2 || backoff(pauseShort, 6) < 6*shortPause {
		t.Error("pauses do not grow")
	}
}

// TestErrorText: text of the store stands in errors cut and on one line, whatever it sent.
func TestErrorText(t *testing.T) {
	t.Parallel()
	got := oneLine("a\r\nb\x00\xff é" + strings.Repeat("x", 300))
	if len(got) > 200 || strings.ContainsAny(got, "\r\n\x00") || !strings.HasPrefix(got, "a  b") {
		t.Errorf("oneLine = %q", got)
	}
	errs := (&Error{Op: "o", Temporary: true, cause: http.ErrSchemeMismatch}).Unwrap()
	if !slices.Equal(errs, []error{http.ErrSchemeMismatch, ErrUnavailable}) {
		t.Errorf("Unwrap = %v", errs)
	}
}
