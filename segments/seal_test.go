package segments

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func sealer(t interface{ Fatal(...any) }, key byte, stream StreamID) *Sealer {
	s, err := NewSealer(bytes.Repeat([]byte{key}, SealKeyBytes), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSealRoundTrip: what is sealed is opened by the same key and stream alone, keeps its metered size, survives the
// chunk codec, and shows nothing of its headers and body.
func TestSealRoundTrip(t *testing.T) {
	t.Parallel()
	stream := NewStreamID()
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Timestamp: rapid.Uint64().Draw(t, "time"), HasTimestamp: true}
		r.Body = append([]byte("secret-body"), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")...)
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, Header{Name: []byte("secret-name"), Value: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value")})
		}
		sealed := sealer(t, 1, stream).Seal(r)
		if sealed.MeteredSize() != r.MeteredSize() || sealed.Timestamp != r.Timestamp || bytes.Contains(sealed.Body, []byte("secret")) || len(sealed.Headers) != 0 {
			t.Fatalf("%+v", sealed)
		}
		chunk := AppendChunk(nil, stream, StoredBatch{Records: []Record{sealed}})
		stored, err := DecodeChunk(stream, chunk, 0, AllRecords)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := sealer(t, 1, stream).Open(stored[0].Record)
		if err != nil || !reflect.DeepEqual(normal(opened), normal(r)) {
			t.Fatalf("opened %+v, %v", opened, err)
		}
		flipped := stored[0].Record
		flipped.Body = bytes.Clone(flipped.Body)
		flipped.Body[rapid.IntRange(0, len(flipped.Body)-1).Draw(t, "at")] ^= 1
		for name, bad := range map[string]func() (Record, error){
			"key":    func() (Record, error) { return sealer(t, 2, stream).Open(stored[0].Record) },
			"stream": func() (Record, error) { return sealer(t, 1, NewStreamID()).Open(stored[0].Record) },
			"bytes":  func() (Record, error) { return sealer(t, 1, stream).Open(flipped) },
			"short":  func() (Record, error) { return sealer(t, 1, stream).Open(Record{Sealed: 9, Body: []byte("x")}) },
		} {
			if _, err := bad(); !errors.Is(err, ErrNotOpened) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

func normal(r Record) Record {
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	return r
}

// TestSealLeavesCommands: the service must be able to read them, and readers need no key for them.
func TestSealLeavesCommands(t *testing.T) {
	t.Parallel()
	s := sealer(t, 1, NewStreamID())
	for _, r := range []Record{
		{Headers: []Header{{Value: []byte("fence")}}, Body: []byte("tok")},
		{Headers: []Header{{Value: []byte("trim")}}, Body: make([]byte, 8)},
	} {
		if got := s.Seal(r); !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v", got)
		}
		if got, err := s.Open(r); err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if _, err := NewSealer(make([]byte, 16), NewStreamID()); err == nil {
		t.Fatal("a short key was accepted")
	}
}
