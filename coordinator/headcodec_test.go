package coordinator_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files of this package")

// goldenHead has no zero field, every number its own value, and so large that it takes more than one byte.
func goldenHead() coordinator.Head {
	fill := func(b byte) (id [16]byte) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	id := func(b byte) segments.EntryID {
		return segments.EntryID{Object: segments.ObjectID(fill(b)), Attempt: 0x0100 + uint16(b)}
	}
	row := func(n uint64, b byte) segments.Row {
		return segments.Row{
			Start: 300 + n, N: 310 + n, TimeBefore: 320 + n, TimeAfter: 330 + n,
			ArrivalMin: 340 + n, ArrivalMax: 350 + n, Bytes: 360 + n,
			IDs:     segments.LabelRange{Min: segments.Label(370 + n), Max: segments.Label(380 + n)},
			Objects: segments.LabelRange{Min: segments.Label(390 + n), Max: segments.Label(400 + n)},
			Child:   segments.ObjectID(fill(b)), ChildBytes: uint32(410 + n),
		}
	}
	return coordinator.Head{
		V: 201, Basin: segments.BasinID(fill(0x10)), Stream: segments.StreamID(fill(0x20)),
		Cipher: "cipher", State: coordinator.Deleting, StateID: coordinator.OpID(fill(0x30)),
		Config: coordinator.StreamConfig{
			StorageClass: coordinator.Standard, RetentionAge: 202, Timestamping: coordinator.ClientRequire,
			Uncapped: true, DeleteOnEmptyMinAge: 203, Fencing: coordinator.Exclusive,
		},
		ConfigV: 204, ConfigID: coordinator.OpID(fill(0x40)),
		Tail: 1<<64 - 1, Base: 206, BaseTime: 207, InlineBytes: 208,
		Pages: []coordinator.Root{{Level: 3, Page: row(1, 0x50)}, {Level: 1, Page: row(2, 0x60)}},
		Log: []segments.Entry{
			{
				ID: id(0x70), N: 501, Skip: 502, MaxTime: 503, Arrival: 504, Bytes: 505,
				Object: segments.ObjectID(fill(0x71)), Offset: 1 << 40, Length: 1<<32 - 1,
			},
			{ID: id(0x80), N: 1<<32 - 1, Skip: 512, MaxTime: 1 << 63, Arrival: 514, Bytes: 515, Data: []byte("data\x00\xff")},
		},
		Token: "tök\x00", TokenV: 209, TokenID: coordinator.OpID(fill(0x90)),
		Trim: 210, TrimTime: 211, Floor: 212, Horizon: segments.MaxLabel,
		Cancelled: []segments.EntryID{id(0xa0), id(0xb0)},
		Lease:     coordinator.Lease{Node: "node", Address: "host:1", Term: 213, Expiry: 214},
		CreatedAt: 215,
	}
}

// zeroFields names the fields below v that are zero. What excludes each other may be.
func zeroFields(v reflect.Value, path string) (zero []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			zero = append(zero, zeroFields(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			zero = append(zero, zeroFields(v.Index(i), path)...)
		}
		if v.Len() == 0 {
			zero = append(zero, path)
		}
	case reflect.Uint8: // one byte of an id, or a flag that is checked as part of the whole
	default:
		if v.IsZero() {
			zero = append(zero, path)
		}
	}
	return zero
}

func TestGoldenHeadIsFull(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		".Pages.Page.Entry": true,                                           // roots have a child instead
		".Log.Data":         true,                                           // of the entry in a segment
		".Log.Object":       true, ".Log.Offset": true, ".Log.Length": true, // of the inline one
	}
	for _, path := range zeroFields(reflect.ValueOf(goldenHead()), "") {
		if !allowed[path] {
			t.Errorf("the golden head has a zero %s", path)
		}
	}
}

func TestHeadGolden(t *testing.T) {
	t.Parallel()
	h := goldenHead()
	for name, log := range map[string]bool{"head.hex": true, "head-without-log.hex": false} {
		got := coordinator.AppendHead(nil, &h, log)
		want := golden(t, name, got)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: encoded as\n%x, want\n%x", name, got, want)
		}
		decoded, err := coordinator.DecodeHead(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		expect := h
		if !log {
			expect.Log = nil
		}
		if !reflect.DeepEqual(decoded, expect) {
			t.Errorf("%s: decoded as\n%+v, want\n%+v", name, decoded, expect)
		}
	}
}

// golden reads a file of hex digits, after writing got to it if asked to.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		var b strings.Builder
		for digits := hex.EncodeToString(got); digits != ""; {
			n := min(64, len(digits))
			b.WriteString(digits[:n] + "\n")
			digits = digits[n:]
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestHeadRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		b := coordinator.AppendHead([]byte("before"), &h, true)
		back, err := coordinator.DecodeHead(bytes.TrimPrefix(b, []byte("before")))
		if err != nil || !reflect.DeepEqual(back, h) && !sameButForEmpty(back, h) {
			t.Fatalf("%v\n%+v became\n%+v", err, h, back)
		}
		for i := range h.Log {
			e, err := coordinator.DecodeEntry(coordinator.AppendEntry(nil, &h.Log[i]))
			if err != nil || !reflect.DeepEqual(e, h.Log[i]) {
				t.Fatalf("%v\n%+v became\n%+v", err, h.Log[i], e)
			}
		}
	})
}

func sameButForEmpty(a, b coordinator.Head) bool {
	for _, h := range []*coordinator.Head{&a, &b} {
		if len(h.Log) == 0 {
			h.Log = nil
		}
		if len(h.Pages) == 0 {
			h.Pages = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// What is added to the format later must not break this build, and what it never writes is refused.
func TestDecodeHead(t *testing.T) {
	t.Parallel()
	h := goldenHead()
	good := coordinator.AppendHead(nil, &h, true)
	with := func(tail string) []byte { return append(bytes.Clone(good), tail...) }
	for name, tc := range map[string]struct {
		in []byte
		ok bool
	}{
		"as written":             {good, true},
		"unknown varint field":   {with("\xf8\x3e\x01"), true},
		"unknown bytes field":    {with("\xfa\x3e\x01x"), true},
		"fixed field":            {with("\xf9\x3e12345678"), false},
		"nothing":                {nil, false},
		"cut short":              {good[:len(good)-1], false},
		"newer version":          {with("\x08\x02"), false},
		"state zero":             {with("\x28\x00"), false},
		"state out of range":     {with("\x28\x84\x02"), false}, // 260: a byte would hold 4
		"stream id of one byte":  {with("\x22\x01x"), false},
		"id given as a number":   {with("\x20\x01"), false},
		"cancelled id too short": {with("\xd2\x01\x01x"), false},
		"empty entry":            {with("\x8a\x02\x00"), false},
		"empty root":             {with("\x82\x02\x00"), false},
		"number given as bytes":  {with("\x12\x01x"), false},    // v
		"text given as a number": {with("\x98\x01\x01"), false}, // token
	} {
		_, err := coordinator.DecodeHead(tc.in)
		if (err == nil) != tc.ok || (err != nil && !errors.Is(err, coordinator.ErrBadHead)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeEntry(t *testing.T) {
	t.Parallel()
	e := goldenHead().Log
	inline, stored := coordinator.AppendEntry(nil, &e[1]), coordinator.AppendEntry(nil, &e[0])
	for name, in := range map[string][]byte{
		"no records":          append(bytes.Clone(inline), 0x10, 0),
		"2^32 records":        append(bytes.Clone(inline), "\x10\x80\x80\x80\x80\x10"...),
		"2^32+1 records":      append(bytes.Clone(inline), "\x10\x81\x80\x80\x80\x10"...),
		"length of 2^32+1":    append(bytes.Clone(stored), "\x48\x81\x80\x80\x80\x10"...),
		"both places":         append(bytes.Clone(stored), "\x52\x01x"...),
		"inline, but empty":   append(bytes.Clone(inline), "\x52\x00"...),
		"inline at an object": append(bytes.Clone(inline), "\x3a\x100123456789abcdef"...),
		"no id":               {0x10, 1, 0x52, 1, 'x'},
		"nothing":             nil,
	} {
		if got, err := coordinator.DecodeEntry(in); !errors.Is(err, coordinator.ErrBadHead) {
			t.Errorf("%s: decoded as %+v, %v", name, got, err)
		}
	}
}

func FuzzDecodeHead(f *testing.F) {
	h := goldenHead()
	f.Add(coordinator.AppendHead(nil, &h, true))
	f.Add(coordinator.AppendHead(nil, &h, false))
	h = storetest.NewHead()
	f.Add(coordinator.AppendHead(nil, &h, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := coordinator.DecodeHead(b)
		if err != nil {
			if !errors.Is(err, coordinator.ErrBadHead) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, err := coordinator.DecodeHead(coordinator.AppendHead(nil, &h, true))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%v\n%+v became\n%+v", err, h, again)
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range goldenHead().Log {
		f.Add(coordinator.AppendEntry(nil, &e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := coordinator.DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, coordinator.ErrBadHead) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, err := coordinator.DecodeEntry(coordinator.AppendEntry(nil, &e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%v\n%+v became\n%+v", err, e, again)
		}
	})
}
