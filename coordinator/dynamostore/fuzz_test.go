package dynamostore

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// mutate changes attributes of an item as the bytes say: three of them choose attribute, type and the length of the
// value that follows.
func mutate(item attrs, changes []byte) {
	var names []string
	for name := range item {
		names = append(names, name)
	}
	slices.Sort(names)
	for len(changes) >= 3 {
		name, kind, n := names[int(changes[0])%len(names)], changes[1], min(int(changes[2]), len(changes)-3)
		value := changes[3 : 3+n]
		changes = changes[3+n:]
		switch kind % 8 {
		case 0:
			delete(item, name)
		case 1:
			item[name] = &types.AttributeValueMemberN{Value: string(value)}
		case 2:
			item[name] = text(string(value))
		case 3:
			item[name] = blob(value)
		case 4:
			item[name] = boolean(n > 0)
		case 5:
			item[name] = &types.AttributeValueMemberL{Value: []types.AttributeValue{blob(value), nil}[:1+n%2]}
		case 6:
			item[name] = &types.AttributeValueMemberSS{Value: []string{string(value)}}
		case 7:
			item[name] = &types.AttributeValueMemberM{Value: attrs{configRetention: text(string(value))}}
		}
	}
}

// An item that somebody else has written over is refused or read, and what is read is written back the same.
func FuzzDecodeHead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 3, '1', '2', 'x'})
	f.Add([]byte{8, 1, 1, '2'})
	for i := range byte(32) {
		f.Add([]byte{i, i, 2, '1', '7'})
	}
	f.Fuzz(func(t *testing.T, changes []byte) {
		h := filled()
		item := headItem(&h)
		mutate(item, changes)
		read, err := decodeHead(item)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("%v is no error of ours", err)
			}
			return
		}
		again, err := decodeHead(headItem(&read))
		if err != nil || !storetest.Equal(again, read) {
			t.Fatalf("%v: read as\n%+v and again as\n%+v", err, read, again)
		}
	})
}

func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(6) {
		f.Add([]byte{i, i, 2, '1', '7'})
		f.Add([]byte{i, i + 1, 0})
	}
	f.Fuzz(func(t *testing.T, changes []byte) {
		r := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte("v"), Version: 1, ID: coordinator.OpID{1}}
		item := rowItem(&r)
		mutate(item, changes)
		read, err := decodeRow(item)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("%v is no error of ours", err)
			}
			return
		}
		again, err := decodeRow(rowItem(&read))
		if err != nil || again.Key != read.Key || again.Version != read.Version || again.ID != read.ID ||
			string(again.Value) != string(read.Value) {
			t.Fatalf("%v: read as\n%+v and again as\n%+v", err, read, again)
		}
	})
}
