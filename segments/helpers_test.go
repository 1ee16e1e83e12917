package segments

import (
	"bytes"
	"encoding/binary"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew; a change of them is a change of the format")

var (
	testBasin   = BasinID{0x01, 0x98, 0xba, 0x51, 0x00, 0x01, 0x70, 0x02, 0x80, 0x03, 4, 5, 6, 7, 8, 9}
	testStream  = StreamID{0x01, 0x98, 0x57, 0xea, 0x00, 0x01, 0x7a, 0x0b, 0x8c, 0x0d, 14, 15, 16, 17, 18, 19}
	otherStream = StreamID{0x01, 0x98, 0x57, 0xea, 0x00, 0x01, 0x7a, 0x0b, 0x8c, 0x0d, 14, 15, 16, 17, 18, 20}
)

// testObjectID is a fixed id: its random part counts up from n.
func testObjectID(label Label, n byte) ObjectID {
	id := objectID(label)
	for i := range id[6:] {
		id[6+i] = n + byte(i)
	}
	return id
}

// golden compares data with a file of testdata.
func golden(t *testing.T, name string, data []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Fatalf("%s: the encoding is not what is stored:\n got %x\nwant %x", name, data, want)
	}
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func drawRecord(t *rapid.T) Record {
	body := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 40),
		rapid.Map(rapid.IntRange(0, 3000), func(n int) []byte { return bytes.Repeat([]byte("abc"), n) }),
	)
	r := Record{
		Timestamp: rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(1e12, 1e12+50)).Draw(t, "time"), HasTimestamp: true,
		Body: body.Draw(t, "body"),
	}
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		r.Sealed = rapid.Uint32Range(1, MaxRecordBytes).Draw(t, "sealed")
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 70}).Draw(t, "headers") {
		r.Headers = append(r.Headers, Header{
			rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "name"), rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "value"),
		})
	}
	return r
}

func drawBatches(t *rapid.T, most int) []StoredBatch {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) StoredBatch {
		return StoredBatch{
			Arrival: rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(1e12, 1e12+3)).Draw(t, "arrival"),
			Records: rapid.SliceOfN(rapid.Custom(drawRecord), 1, most).Draw(t, "records"),
		}
	}), 1, 6).Draw(t, "batches")
}

// flatten gives the records one by one, as a decoder returns them.
func flatten(batches []StoredBatch) []StoredRecord {
	var out []StoredRecord
	for _, b := range batches {
		for _, r := range b.Records {
			out = append(out, StoredRecord{r, b.Arrival})
		}
	}
	return out
}

func sameRecord(a, b StoredRecord) bool {
	return a.Timestamp == b.Timestamp && a.HasTimestamp == b.HasTimestamp && a.Sealed == b.Sealed &&
		a.Arrival == b.Arrival && bytes.Equal(a.Body, b.Body) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool {
			return bytes.Equal(x.Name, y.Name) && bytes.Equal(x.Value, y.Value)
		})
}

func sameRecords(a, b []StoredRecord) bool { return slices.EqualFunc(a, b, sameRecord) }

// numbered makes n records of about size bytes, each telling its number, in batches of ten. Bodies do not compress.
func numbered(n, size int) []StoredBatch {
	var out []StoredBatch
	seed := uint64(n)*1000 + uint64(size)
	for i := range n {
		if i%10 == 0 {
			out = append(out, StoredBatch{Arrival: 1_700_000_000_000 + uint64(i)})
		}
		body := make([]byte, max(size, 4))
		for j := range body {
			seed = seed*6364136223846793005 + 1442695040888963407
			body[j] = byte(seed >> 56)
		}
		copy(body, []byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		b := &out[len(out)-1]
		b.Records = append(b.Records, Record{Timestamp: 1_700_000_000_000 + uint64(i), HasTimestamp: true, Body: body})
	}
	return out
}

// reseal gives a changed page a checksum that matches.
func reseal(page []byte) []byte {
	body := page[:len(page)-4]
	return binary.BigEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, castagnoli))
}
