package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestSSEGolden(t *testing.T) {
	t.Parallel()
	var got []byte
	got = AppendSSEBatch(got, EventID{3, 4, 567}, recordsSample, &StreamPosition{4, 1700000000004}, FormatRaw)
	got = AppendSSEPing(got, 1700000000005, StreamPosition{4, 1700000000004})
	got = AppendSSEError(got, Errorf(CodeServerDraining, "line\r\nbreak"))
	got = AppendSSEError(got, &RangeNotSatisfiable{Tail: StreamPosition{4, 1700000000004}})
	got = AppendSSEDone(got)
	golden(t, "events.sse", bytes.TrimSuffix(got, []byte("\n")))
}

func TestEventID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]EventID{"1,2,3": {1, 2, 3}, " 0,0,18446744073709551615 ": {0, 0, 1<<64 - 1}} {
		got, err := ParseEventID(text)
		if err != nil || got != want || got.String() != strings.TrimSpace(text) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "1,2", "1,2,3,4", "1,2,", ",,", "+1,2,3", "-1,2,3", "1, 2,3", "a,b,c", "1,2,18446744073709551616", "1.0,2,3"} {
		_, err := ParseEventID(text)
		wantCode(t, err, CodeBadHeader)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	u := func(n uint64) *uint64 { return &n }
	got := EventID{9, 3, 100}.Resume(ReadQuery{Timestamp: u(1), TailOffset: u(2), Count: u(5), Bytes: u(99), Until: u(7), Clamp: true, Wait: ptr(uint32(3))})
	want := ReadQuery{SeqNum: u(10), Count: u(2), Bytes: u(0), Until: u(7), Clamp: true, Wait: ptr(uint32(3))}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := (EventID{SeqNum: 1<<64 - 1}).Resume(ReadQuery{}); *got.SeqNum != 1<<64-1 || got.Count != nil {
		t.Errorf("got %+v", got)
	}
}

// readAll gives all events and the error at the end.
func readAll(r io.Reader, f Format) (events []SSEEvent, err error) {
	s := NewSSEReader(r, f)
	for {
		e, err := s.Next()
		if err != nil {
			if _, again := s.Next(); again != err {
				return nil, errors.New("the error does not stay")
			}
			return events, err
		}
		events = append(events, e)
	}
}

func TestSSERoundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		rapid.Check(t, func(t *rapid.T) {
			var stream []byte
			var want []SSEEvent
			for range rapid.IntRange(0, 4).Draw(t, "events") {
				if rapid.Bool().Draw(t, "ping") {
					now, tail := rapid.Uint64().Draw(t, "now"), StreamPosition{rapid.Uint64().Draw(t, "seq"), 5}
					stream = AppendSSEPing(stream, now, tail)
					want = append(want, SSEEvent{Ping: true, Timestamp: now, Batch: ReadBatch{Tail: &tail}})
					continue
				}
				b, id := genBatch(f).Draw(t, "batch"), EventID{rapid.Uint64().Draw(t, "id"), 2, 3}
				stream = AppendSSEBatch(stream, id, b.Records, b.Tail, f)
				want = append(want, SSEEvent{ID: id, Batch: b})
			}
			stream = AppendSSEDone(stream)
			text := string(stream)
			switch rapid.IntRange(0, 2).Draw(t, "line ends") {
			case 1:
				text = strings.ReplaceAll(text, "\n", "\r\n")
			case 2:
				text = strings.ReplaceAll(text, "\n", "\r")
			}
			var r io.Reader = strings.NewReader(text)
			if rapid.Bool().Draw(t, "one byte at a time") {
				r = iotest.OneByteReader(r)
			}
			if got, err := readAll(r, f); err != io.EOF || !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestSSEReader(t *testing.T) {
	t.Parallel()
	const batch = "event: batch\nid: 1,2,3\ndata: {\"records\":[]}\n\n"
	done := string(AppendSSEDone(nil))
	tests := []struct {
		name, stream string
		events       int
		end          error // nil: some other error
	}{
		{"done", done, 0, io.EOF},
		{"nothing", "", 0, io.ErrUnexpectedEOF},
		{"no done", batch, 1, io.ErrUnexpectedEOF},
		{"cut event", batch + "event: batch\nid: 1,2,3\ndata: {\"records\":[]}\n", 1, io.ErrUnexpectedEOF},
		{"cut done", "data: [DONE]\n", 0, io.ErrUnexpectedEOF},
		{"comments, unknown names and fields", ": hello\n\n:\nevent: other\ndata: x\n\nretry: 5\nunknown\ndata: text\n\n" + batch + done, 1, io.EOF},
		{"no data", "event: batch\nid: x\n\n" + done, 0, io.EOF},
		{"byte order mark", "\ufeff" + batch + done, 1, io.EOF},
		{"data in lines", "event:batch\nid:1,2,3\ndata:{\"records\":\ndata: []}\n\n" + done, 1, io.EOF},
		{"after done", done + batch, 0, io.EOF},
		{"ping without tail", "event: ping\ndata: {\"timestamp\":5}\n\n" + done, 1, io.EOF},
		{"bad id", "event: batch\nid: 1\ndata: {\"records\":[]}\n\n", 0, nil},
		{"no id", "event: batch\ndata: {\"records\":[]}\n\n", 0, nil},
		{"bad batch", "event: batch\nid: 1,2,3\ndata: {\n\n", 0, nil},
		{"bad ping", "event: ping\ndata: x\n\n", 0, nil},
		{"long line", "data: " + strings.Repeat("x", SSEEventSizeMax+1) + "\n\n", 0, errEventTooLarge},
		{"many lines", strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9) + "\n", 0, errEventTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			events, err := readAll(strings.NewReader(test.stream), FormatRaw)
			if len(events) != test.events || test.end != nil && !errors.Is(err, test.end) || err == nil || test.end == nil && errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %d events, %v", len(events), err)
			}
		})
	}
	broken := errors.New("reset")
	if _, err := readAll(io.MultiReader(strings.NewReader(batch), iotest.ErrReader(broken)), FormatRaw); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestSSEErrorEvent(t *testing.T) {
	t.Parallel()
	for _, want := range []error{
		&FencingTokenMismatch{Installed: "t"}, &SeqNumMismatch{Next: 7}, &RangeNotSatisfiable{Tail: StreamPosition{1, 2}}, &RevisionNotReached{Current: "r"},
	} {
		if _, err := readAll(bytes.NewReader(AppendSSEError(nil, want)), FormatRaw); !reflect.DeepEqual(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	_, err := readAll(bytes.NewReader(AppendSSEError(nil, &Error{Code: CodeServerDraining, Message: "m", Applied: AppliedUnknown})), FormatRaw)
	if e := new(Error); !errors.As(err, &e) || e.Code != CodeServerDraining || e.Status() != 503 || e.Message != "m" || e.Effect() != AppliedUnknown || !e.Retryable() {
		t.Errorf("got %#v", err)
	}
}

func FuzzEventID(f *testing.F) {
	f.Add("1,2,3")
	f.Add("18446744073709551615,0,")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseEventID(text)
		if err != nil {
			wantCode(t, err, CodeBadHeader)
			return
		}
		if again, err := ParseEventID(id.String()); err != nil || again != id {
			t.Fatalf("got %v, %v, want %v", again, err, id)
		}
		_ = id.Resume(ReadQuery{Count: ptr(uint64(5))})
	})
}

func FuzzSSEReader(f *testing.F) {
	f.Add(AppendSSEDone(AppendSSEBatch(AppendSSEPing(nil, 5, StreamPosition{1, 2}), EventID{1, 2, 3}, recordsSample, nil, FormatRaw)))
	f.Add(AppendSSEError(nil, Errorf(CodeStorage, "m")))
	f.Add([]byte("\ufeffdata:x\r\rdata\r\n\n:\nid\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, errWhole := readAll(bytes.NewReader(stream), FormatRaw)
		bytewise, errBytes := readAll(iotest.OneByteReader(bytes.NewReader(stream)), FormatRaw)
		if !reflect.DeepEqual(whole, bytewise) || errWhole.Error() != errBytes.Error() {
			t.Fatalf("got %v, %v at once and %v, %v in bytes", whole, errWhole, bytewise, errBytes)
		}
	})
}
