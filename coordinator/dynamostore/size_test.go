package dynamostore

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// sizeOf is what the service bills for: names and values, with numbers at half a byte a digit.
func sizeOf(a attrs) (n int) {
	for name, v := range a {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) (n int) {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL:
		return 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
		return n
	case *types.AttributeValueMemberL:
		n = 3
		for _, e := range v.Value {
			n += 1 + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberM:
		return 3 + len(v.Value) + sizeOf(v.Value)
	}
	panic("a type that no item has")
}

// realistic is a head as it is after years of use: clocks of today, large numbers, roots on two levels.
func realistic(entries int, inline int) coordinator.Head {
	const now = 1_800_000_000_000
	h := storetest.NewHead()
	h.V, h.Tail, h.Base, h.BaseTime = 12_345_678, 987_654_321, 987_654_000, now
	h.CreatedAt, h.Trim, h.TrimTime, h.Floor = now, 900_000_000, now, 900_000_000
	h.Horizon = now
	row := segments.Row{
		Start: 900_000_000, N: 87_654_000, TimeBefore: now, TimeAfter: now, ArrivalMin: now, ArrivalMax: now, Bytes: 1 << 40,
		IDs: segments.LabelRange{Min: now, Max: now}, Objects: segments.LabelRange{Min: now, Max: now},
		Child: segments.NewObjectID(now), ChildBytes: 30_000,
	}
	h.Pages = []coordinator.Root{{Level: 1, Page: row}, {Page: row}}
	for range entries {
		id := segments.EntryID{Object: segments.NewObjectID(now + 1), Attempt: 1}
		e := segments.Entry{ID: id, N: 100, MaxTime: now, Arrival: now, Bytes: 100_000}
		if inline > 0 {
			e.Data, e.Bytes, e.N = make([]byte, inline), uint64(inline), 1
		} else {
			e.Object, e.Offset, e.Length = id.Object, 300_000, 60_000
		}
		h.Log = append(h.Log, e)
		h.InlineBytes += uint64(inline)
	}
	return h
}

func TestItemSize(t *testing.T) {
	t.Parallel()
	fresh := storetest.NewHead()
	full := realistic(Room.MaxEntries, 0)
	full.Lease = coordinator.Lease{Node: "node-1", Address: "10.0.0.1:8080", Term: 9, Expiry: 1_800_000_000_000}
	for _, test := range []struct {
		name  string
		head  coordinator.Head
		limit int
	}{
		{"a new stream", fresh, 400},
		{"moved a moment ago", realistic(0, 0), 600},
		{"half way to a move", realistic(Room.MoveEntries/2, 0), 1024},
		{"owing a move", realistic(Room.MoveEntries-1, 0), 1400},
		{"one inline batch", realistic(1, int(Room.InlineBatch)), 1700},
		{"full of entries", full, 20 << 10},
		{"full of inline bytes", realistic(16, int(Room.MaxInline)/16), 20 << 10},
	} {
		size := sizeOf(headItem(&test.head))
		t.Logf("%s: %d bytes, %d write units", test.name, size, (size+1023)/1024)
		if size > test.limit {
			t.Errorf("%s: %d bytes, want at most %d", test.name, size, test.limit)
		}
	}
}

// filled is a head without a zero field.
func filled() coordinator.Head {
	object := func(b byte) (id segments.ObjectID) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	op := func(b byte) coordinator.OpID { return coordinator.OpID(object(b)) }
	h := coordinator.Head{
		V: 1, Basin: segments.BasinID(object(0x10)), Stream: segments.StreamID(object(0x20)),
		State: coordinator.Deleting, StateID: op(0x30),
		Config: coordinator.StreamConfig{
			StorageClass: coordinator.Standard, RetentionAge: 2, Timestamping: coordinator.ArrivalTime, Uncapped: true,
			DeleteOnEmptyMinAge: 3, Fencing: coordinator.Exclusive,
		},
		ConfigV: 4, ConfigID: op(0x40), Tail: math.MaxUint64, Base: 5, BaseTime: 6, InlineBytes: 3,
		Token: "tökén", TokenV: 7, TokenID: op(0x50), Trim: 8, TrimTime: 9, Floor: 10, Horizon: 11,
		Cancelled: []segments.EntryID{{Object: object(0xf0), Attempt: 12}},
		Lease:     coordinator.Lease{Node: "node", Address: "10.0.0.1:80", Term: 13, Expiry: 14},
		CreatedAt: 15, Cipher: "cipher",
	}
	h.Log = []segments.Entry{
		{ID: segments.EntryID{Object: object(0x60), Attempt: 16}, N: 17, Skip: 18, MaxTime: 19, Arrival: 20, Bytes: 21, Data: []byte("abc")},
		{ID: segments.EntryID{Object: object(0x70), Attempt: 22}, N: 23, Skip: 24, MaxTime: 25, Arrival: 26, Bytes: 27,
			Object: object(0x80), Offset: 28, Length: 29},
	}
	h.Pages = []coordinator.Root{{Level: 3, Page: segments.Row{
		Start: 30, N: 31, TimeBefore: 32, TimeAfter: 33, ArrivalMin: 34, ArrivalMax: 35, Bytes: 36,
		IDs: segments.LabelRange{Min: 37, Max: 38}, Objects: segments.LabelRange{Min: 39, Max: 40}, Child: object(0x90), ChildBytes: 41,
	}}}
	return h
}

// Items as they are stored. A change that this test reports needs another format.
func TestGoldenItems(t *testing.T) {
	t.Parallel()
	h := filled()
	row := coordinator.Row{
		Key: coordinator.Key{Part: "part", Sort: "sort\x00\xff"}, Value: []byte("value"), Version: 42,
		ID: coordinator.OpID(h.StateID),
	}
	for file, item := range map[string]attrs{"testdata/head.json": headItem(&h), "testdata/row.json": rowItem(&row)} {
		got, err := json.MarshalIndent(plain(&types.AttributeValueMemberM{Value: item})["M"], "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *updateGolden {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v; an item is\n%s", file, err, got)
		}
	}
	// A field that a head gains must be stored too.
	for v, i := reflect.ValueOf(h), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is zero in the head that stands for all", v.Type().Field(i).Name)
		}
	}
	if back, err := decodeHead(headItem(&h)); err != nil || !storetest.Equal(back, h) {
		t.Errorf("the head comes back as %v\n%+v", err, back)
	}
	if back, err := decodeRow(rowItem(&row)); err != nil || back.Key != row.Key || string(back.Value) != "value" ||
		back.Version != row.Version || back.ID != row.ID {
		t.Errorf("the row comes back as %v\n%+v", err, back)
	}
}

// plain is a value as the service's JSON has it.
func plain(v types.AttributeValue) map[string]any {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i := range list {
			list[i] = plain(v.Value[i])
		}
		return map[string]any{"L": list}
	case *types.AttributeValueMemberM:
		m := map[string]any{}
		for name, e := range v.Value {
			m[name] = plain(e)
		}
		return map[string]any{"M": m}
	}
	panic("a type that no item has")
}
