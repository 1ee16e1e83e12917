package segments

import (
	"bytes"
	"fmt"
	"testing"
)

// logLines makes n records of text that compresses as logs do, of about size bytes.
func logLines(n, size int) []StoredBatch {
	var out []StoredBatch
	for i, r := range flatten(numbered(n, 8)) {
		line := fmt.Appendf(nil, `{"level":"info","seq":%d,"id":"%x","msg":"request served","path":"/v1/streams/%d"} `, i, r.Body, i%37)
		body := bytes.Repeat(line, size/len(line)+1)[:size]
		out = append(out, StoredBatch{r.Arrival, []Record{{Timestamp: r.Timestamp, HasTimestamp: true, Body: body}}})
	}
	return out
}

func BenchmarkAppendChunk(b *testing.B) {
	for name, batches := range map[string][]StoredBatch{
		"1x100B": numbered(1, 100), "1x1KiB": numbered(1, 1024), "1x1KiB-text": logLines(1, 1024),
		"1000x1KiB": numbered(1000, 1024), "1000x1KiB-text": logLines(1000, 1024), "10000x50B": numbered(10_000, 50),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var total int64
			for _, r := range flatten(batches) {
				total += int64(len(r.Body))
			}
			b.SetBytes(total)
			for b.Loop() {
				AppendChunk(nil, testStream, batches...)
			}
		})
	}
}

func BenchmarkDecodeChunk(b *testing.B) {
	for name, batches := range map[string][]StoredBatch{
		"1x1KiB": numbered(1, 1024), "4000x1KiB": numbered(4000, 1024), "4000x1KiB-text": logLines(4000, 1024),
		"10000x50B": numbered(10_000, 50),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			chunk := AppendChunk(nil, testStream, batches...)
			var total int64
			for _, r := range flatten(batches) {
				total += int64(len(r.Body))
			}
			b.SetBytes(total)
			for b.Loop() {
				if _, err := DecodeChunk(testStream, chunk, 0, AllRecords); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRechunk(b *testing.B) {
	var parts []ChunkRange
	for _, batch := range numbered(1000, 100) {
		for _, r := range batch.Records {
			parts = append(parts, ChunkRange{AppendChunk(nil, testStream, StoredBatch{batch.Arrival, []Record{r}}), 0, 1})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Rechunk(nil, testStream, parts...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	p := fullPage()
	data, _ := EncodePage(p)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodePage(p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodePage(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
