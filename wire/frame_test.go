package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// written gives what write makes of a writer's frames, and fails if one frame takes more than one Write.
func written(t testing.TB, c Compression, frames int, write func(*FrameWriter) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w := &countWrites{w: &out}
	if err := write(NewFrameWriter(w, c)); err != nil {
		t.Fatal(err)
	}
	if w.n != frames {
		t.Errorf("%d writes for %d frames", w.n, frames)
	}
	return out.Bytes()
}

type countWrites struct {
	w io.Writer
	n int
}

func (c *countWrites) Write(b []byte) (int, error) {
	c.n++
	return c.w.Write(b)
}

func TestFrameGolden(t *testing.T) {
	t.Parallel()
	const ts = 1700000000000
	tests := []struct {
		name  string
		write func(*FrameWriter) error
		want  string
	}{
		{"input", func(w *FrameWriter) error { return w.Input(AppendInput{Records: []AppendRecord{{Body: []byte("hi")}}}) }, "00 00 07 00 0a 04 1a 02 68 69"},
		{"ack", func(w *FrameWriter) error {
			return w.Ack(AppendAck{Start: StreamPosition{0, ts}, End: StreamPosition{1, ts}, Tail: StreamPosition{1, ts}})
		}, "00 00 20 00 0a 07 10 80 d0 95 ff bc 31 12 09 08 01 10 80 d0 95 ff bc 31 1a 09 08 01 10 80 d0 95 ff bc 31"},
		{"heartbeat", func(w *FrameWriter) error { return w.Batch(nil, &StreamPosition{5, ts}) }, "00 00 0c 00 12 09 08 05 10 80 d0 95 ff bc 31"},
		{"terminal", func(w *FrameWriter) error { return w.Terminal(&SeqNumMismatch{Next: 7}) }, "00 00 19 80 01 9c" + hex.EncodeToString([]byte(`{"seq_num_mismatch":7}`))},
		{"conflict", func(w *FrameWriter) error { return w.Conflict(&SeqNumMismatch{Next: 7}) }, "00 00 19 01 01 9c" + hex.EncodeToString([]byte(`{"seq_num_mismatch":7}`))},
		{"code", func(w *FrameWriter) error { return w.Terminal(Errorf(CodeStorage, "m")) }, "00 00 37 80 01 f4" + hex.EncodeToString([]byte(`{"code":"storage","message":"m","applied":"unknown"}`))},
		{"empty", func(w *FrameWriter) error { return w.Batch(nil, nil) }, "00 00 01 00"},
		{"reconnect", func(w *FrameWriter) error { w.AdviseReconnect(); return w.Batch(nil, &StreamPosition{}) }, "00 00 03 10 12 00"},
	}
	for _, test := range tests {
		if got := written(t, CompressionZstd, 1, test.write); !bytes.Equal(got, unhex(t, test.want)) {
			t.Errorf("%s: got % x, want %s", test.name, got, test.want)
		}
	}
}

func frameOf(flags byte, payload []byte) []byte {
	n := len(payload) + 1
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), flags}, payload...)
}

func zstdOf(t testing.TB, b []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipOf(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFrameReader(t *testing.T) {
	t.Parallel()
	payload := bytes.Repeat([]byte("payload "), 20_000)
	full := make([]byte, FramePayloadMax)
	tests := []struct {
		name string
		body []byte
		want []Frame
	}{
		{"none", nil, nil},
		{"empty", frameOf(0, nil), []Frame{{Payload: []byte{}}}},
		{"two", append(frameOf(0x0e, []byte("a")), frameOf(0x91, payload)...), []Frame{{Payload: []byte("a")}, {Payload: payload, Terminal: true, Conflict: true, Reconnect: true}}},
		{"full", frameOf(0, full), []Frame{{Payload: full}}},
		{"zstd", frameOf(0x20, zstdOf(t, payload)), []Frame{{Payload: payload}}},
		{"zstd full, large window", frameOf(0x20, zstdOf(t, full, zstd.WithWindowSize(8<<20))), []Frame{{Payload: full}}},
		{"gzip", frameOf(0x40, gzipOf(t, payload)), []Frame{{Payload: payload}}},
		{"gzip full", frameOf(0x40, gzipOf(t, full)), []Frame{{Payload: full}}},
	}
	for _, test := range tests {
		for how, r := range map[string]io.Reader{"whole": bytes.NewReader(test.body), "data and EOF": iotest.DataErrReader(bytes.NewReader(test.body)), "halves": iotest.HalfReader(bytes.NewReader(test.body))} {
			fr := NewFrameReader(r)
			for i, want := range test.want {
				got, err := fr.Next()
				if err != nil || !bytes.Equal(got.Payload, want.Payload) || got.Terminal != want.Terminal || got.Conflict != want.Conflict || got.Reconnect != want.Reconnect {
					t.Errorf("%s, %s: frame %d: got %d bytes, %v", test.name, how, i, len(got.Payload), err)
				}
			}
			for range 2 {
				if _, err := fr.Next(); err != io.EOF {
					t.Errorf("%s, %s: got %v at the end", test.name, how, err)
				}
			}
		}
	}
}

func TestFrameReaderRefuses(t *testing.T) {
	t.Parallel()
	bomb := make([]byte, FramePayloadMax+1)
	input := EncodeAppendInputProto(nil, AppendInput{FencingToken: ptr(strings.Repeat("t", 37))})
	tests := []struct {
		name string
		body []byte
		code Code
	}{
		{"no length", []byte{0, 0, 0, 0}, CodeBadFrame},
		{"too long", []byte{0x20, 0, 1, 0}, CodeBadFrame},
		{"longest", []byte{0xff, 0xff, 0xff, 0}, CodeBadFrame},
		{"cut in the length", []byte{0, 0}, CodeBadFrame},
		{"cut before the flags", []byte{0, 0, 1}, CodeBadFrame},
		{"cut before the payload", []byte{0, 0, 2, 0}, CodeBadFrame},
		{"cut in the payload", []byte{0, 0, 3, 0, 1}, CodeBadFrame},
		{"claims much, sends nothing", []byte{0x20, 0, 0, 0}, CodeBadFrame},
		{"two compressions", frameOf(0x60, nil), CodeBadFrame},
		{"no zstd", frameOf(0x20, []byte("text")), CodeBadFrame},
		{"no gzip", frameOf(0x40, []byte("text")), CodeBadFrame},
		{"cut gzip", frameOf(0x40, gzipOf(t, bomb[:5000])[:20]), CodeBadFrame},
		{"zstd bomb", frameOf(0x20, zstdOf(t, bomb)), CodeBadFrame},
		{"gzip bomb", frameOf(0x40, gzipOf(t, bomb)), CodeBadFrame},
		{"large zstd bomb", frameOf(0x20, zstdOf(t, make([]byte, 64<<20))), CodeBadFrame},
		{"large zstd window", frameOf(0x20, unhex(t, "28 b5 2f fd 00 80 09 00 00 61")), CodeBadFrame},
		{"terminal", frameOf(flagTerminal, nil), CodeBadFrame},
		{"no protobuf", frameOf(0, []byte{0x0a}), CodeBadFrame},
		{"invalid input", frameOf(0, input), CodeInvalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewFrameReader(bytes.NewReader(test.body)).NextInput()
			wantCode(t, err, test.code)
			if e := new(Error); errors.As(err, &e) && e.Effect() != AppliedNo {
				t.Errorf("a frame that cannot be read is %s", e.Effect())
			}
			fr := NewAnswerReader(bytes.NewReader(test.body))
			if _, err := fr.Next(); err != nil {
				if e := new(Error); !errors.As(err, &e) || e.Effect() != AppliedUnknown {
					t.Errorf("an answer that cannot be read is %v", err)
				}
				if _, again := fr.Next(); again != err {
					t.Errorf("then %v, before %v", again, err)
				}
			}
		})
	}
}

// TestFrameReaderFailure keeps a broken connection apart from broken frames.
func TestFrameReaderFailure(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{errors.New("reset"), io.ErrUnexpectedEOF} {
		for _, before := range [][]byte{nil, {0}, {0, 0, 5, 0, 1}} {
			_, err := NewFrameReader(io.MultiReader(bytes.NewReader(before), iotest.ErrReader(broken))).Next()
			if e := new(Error); !errors.Is(err, broken) || errors.As(err, &e) {
				t.Errorf("after % x: got %v", before, err)
			}
		}
	}
}

// TestFrameAllocation shows that a length alone costs little. It is not parallel: it counts what all allocate.
func TestFrameAllocation(t *testing.T) {
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := NewFrameReader(bytes.NewReader([]byte{0x20, 0, 0, 0, 1})).Next(); err == nil {
			t.Fatal("a cut frame is accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > growthMin+4096 {
		t.Errorf("%d bytes allocated for one that came", got)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, want := range []error{&SeqNumMismatch{Next: 7}, &FencingTokenMismatch{Installed: "t"}, &RangeNotSatisfiable{Tail: StreamPosition{1, 2}}} {
		if got := DecodeTerminal(EncodeTerminal(want)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	got := new(Error)
	if !errors.As(Frame{Terminal: true, Payload: EncodeTerminal(&Error{Code: CodeStorage, Message: "m", Applied: AppliedNo})}.Err(), &got) || got.Code != CodeStorage || got.Message != "m" || got.Effect() != AppliedNo {
		t.Errorf("got %v", got)
	}
	if (Frame{Conflict: true}).Err() == nil || (Frame{}).Err() != nil {
		t.Error("which frames are errors?")
	}
}

func TestFrameRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []Compression{CompressionNone, CompressionZstd, CompressionGzip} {
		rapid.Check(t, func(t *rapid.T) {
			var body bytes.Buffer
			w := NewFrameWriter(&body, c)
			inputs := rapid.SliceOfN(genInput(FormatBase64), 0, 3).Draw(t, "inputs")
			for i := range inputs {
				if rapid.Bool().Draw(t, "large") {
					inputs[i].Records = append(inputs[i].Records, AppendRecord{Body: bytes.Repeat([]byte("z"), CompressMin)})
				}
				if err := w.Input(inputs[i]); err != nil {
					t.Fatal(err)
				}
			}
			r := NewFrameReader(&body)
			for _, want := range inputs {
				if got, err := r.NextInput(); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("got %+v, %v, want %+v", got, err, want)
				}
			}
			if _, err := r.NextInput(); err != io.EOF {
				t.Fatalf("got %v at the end", err)
			}
		})
	}
}

func TestCompressionOnlyWhereItPays(t *testing.T) {
	t.Parallel()
	random := rapid.SliceOfN(rapid.Byte(), 4000, 4000).Example(1)
	for _, test := range []struct {
		name  string
		c     Compression
		body  []byte
		flags byte
	}{
		{"small", CompressionZstd, bytes.Repeat([]byte("a"), CompressMin-10), 0},
		{"zstd", CompressionZstd, bytes.Repeat([]byte("a"), CompressMin), 0x20},
		{"gzip", CompressionGzip, bytes.Repeat([]byte("a"), CompressMin), 0x40},
		{"none", CompressionNone, bytes.Repeat([]byte("a"), CompressMin), 0},
		{"random", CompressionZstd, random, 0},
	} {
		got := written(t, test.c, 1, func(w *FrameWriter) error { return w.Batch([]Record{{Body: test.body}}, nil) })
		if got[3] != test.flags {
			t.Errorf("%s: flags %#x, want %#x", test.name, got[3], test.flags)
		}
		if test.flags != 0 && len(got) > len(test.body)/2 {
			t.Errorf("%s: %d bytes", test.name, len(got))
		}
	}
}

// TestBatchLargerThanAFrame writes what takes more than one frame. Within S2's limits that takes many small headers;
// bodies do the same here, faster.
func TestBatchLargerThanAFrame(t *testing.T) {
	t.Parallel()
	records := make([]Record, 4)
	for i := range records {
		records[i] = Record{SeqNum: uint64(i) + 1, Body: bytes.Repeat([]byte{byte(i)}, FrameSizeMax/3)}
	}
	tail := &StreamPosition{9, 9}
	r := NewAnswerReader(bytes.NewReader(written(t, CompressionNone, 2, func(w *FrameWriter) error { return w.Batch(records, tail) })))
	var got []Record
	for range 2 {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		batch, err := DecodeReadBatchProto(f.Payload)
		if err != nil || batch.Tail == nil || *batch.Tail != *tail {
			t.Fatalf("got %v, %v", batch.Tail, err)
		}
		got = append(got, batch.Records...)
	}
	if !reflect.DeepEqual(got, records) {
		t.Error("other records came out")
	}

	one := []Record{{Body: make([]byte, FramePayloadMax-8)}} // two tags and sizes, and no room for the tail
	f, err := NewAnswerReader(bytes.NewReader(written(t, CompressionNone, 1, func(w *FrameWriter) error { return w.Batch(one, tail) }))).Next()
	if err != nil {
		t.Fatal(err)
	}
	if batch, err := DecodeReadBatchProto(f.Payload); err != nil || batch.Tail != nil || !reflect.DeepEqual(batch.Records, one) {
		t.Errorf("got %v, %v", batch.Tail, err)
	}
	one[0].SeqNum = 1
	if err := NewFrameWriter(io.Discard, CompressionNone).Batch(one, tail); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestNegotiateCompression(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lines []string
		want  Compression
	}{
		{nil, CompressionNone}, {[]string{""}, CompressionNone}, {[]string{"br, *"}, CompressionNone}, {[]string{"gzip"}, CompressionGzip}, {[]string{"gzip, deflate, br"}, CompressionGzip},
		{[]string{"gzip", "br, ZSTD;q=0"}, CompressionZstd}, {[]string{"zstd, gzip"}, CompressionZstd}, {[]string{"xzstd"}, CompressionNone},
	} {
		if got := NegotiateCompression(http.Header{"Accept-Encoding": test.lines}); got != test.want {
			t.Errorf("%q: got %d, want %d", test.lines, got, test.want)
		}
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("text "), 1000)
	full := make([]byte, BodySizeMax)
	over := make([]byte, BodySizeMax+1)
	tests := []struct {
		name, encoding string
		body           []byte
		want           []byte // nil: bad_proto
	}{
		{"plain", "", text, text}, {"identity", " Identity", text, text}, {"zstd", "zstd", zstdOf(t, text), text}, {"gzip", "gzip", gzipOf(t, text), text},
		{"empty", "", nil, []byte{}}, {"full", "", full, full}, {"full zstd", "zstd", zstdOf(t, full), full}, {"full gzip", "gzip", gzipOf(t, full), full},
		{"over", "", over, nil}, {"over zstd", "zstd", zstdOf(t, over), nil}, {"over gzip", "gzip", gzipOf(t, over), nil}, {"not gzip", "gzip", text, nil}, {"not zstd", "zstd", text, nil},
	}
	for _, test := range tests {
		for _, known := range []bool{true, false} {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(test.body))
			if !known {
				r.ContentLength = -1
			}
			if test.encoding != "" {
				r.Header.Set("Content-Encoding", test.encoding)
			}
			got, err := ReadBody(r, CodeBadProto)
			if test.want == nil {
				wantCode(t, err, CodeBadProto)
			} else if err != nil || !bytes.Equal(got, test.want) {
				t.Errorf("%s: got %d bytes, %v", test.name, len(got), err)
			}
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set("Content-Encoding", "gzip, zstd")
	if _, err := ReadBody(r, CodeBadJSON); !errors.As(err, new(*UnsupportedEncoding)) {
		t.Errorf("got %v", err)
	}
	r = httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := ReadBody(r, CodeBadJSON)
	wantCode(t, err, CodeClientHangup)
}

func FuzzFrameReader(f *testing.F) {
	f.Add(frameOf(0, EncodeAppendInputProto(nil, inputSample)))
	f.Add(append(frameOf(0x20, zstdOf(f, []byte("\x0a\x00"))), frameOf(0x40, gzipOf(f, nil))...))
	f.Add(frameOf(flagTerminal, EncodeTerminal(&SeqNumMismatch{Next: 7})))
	f.Add([]byte{0x20, 0, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		fr := NewFrameReader(iotest.OneByteReader(bytes.NewReader(body)))
		for total := 0; ; {
			f, err := fr.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				wantCode(t, err, CodeBadFrame)
				return
			}
			if total++; len(f.Payload) > FramePayloadMax || total > len(body)/frameHeaderSize {
				t.Fatalf("frame %d has %d bytes", total, len(f.Payload))
			}
			_, _ = DecodeAppendInputProto(f.Payload, CodeBadFrame)
		}
	})
}

func FuzzTerminal(f *testing.F) {
	f.Add(EncodeTerminal(&SeqNumMismatch{Next: 7}))
	f.Add(EncodeTerminal(Errorf(CodeBadFrame, "m")))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := DecodeTerminal(bytes.Clone(payload))
		if err == nil {
			t.Fatal("no error")
		}
		again := DecodeTerminal(EncodeTerminal(err))
		if status, _ := EncodeError(err); status != 500 && again.Error() != err.Error() {
			t.Fatalf("%v became %v", err, again)
		}
	})
}
