package s3objects_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// BenchmarkCall times a call beside its floor, the same request through the same client library, on the fake and on the
// servers that are up:
//
//	tools/with-servers versitygw minio -- go test -run xxx -bench Call -benchtime 500x ./segments/s3objects/
func BenchmarkCall(b *testing.B) {
	stores := map[string]s3objects.Options{"fake": {Bucket: fakes3.Bucket, Endpoint: fakes3.Start(b).URL, Credentials: static}}
	for name, variable := range servers {
		if os.Getenv(variable) != "" {
			stores[name] = makeBucket(b, os.Getenv(variable))
		}
	}
	for name, options := range stores {
		client, err := s3objects.Dial(options)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { client.Close() })
		store := s3objects.New(client)
		for _, size := range []int{4 << 10, 1 << 20} {
			benchmarkSize(b, name, store, bytes.Repeat([]byte("x"), size))
		}
	}
}

func benchmarkSize(b *testing.B, name string, store *s3objects.Store, data []byte) {
	ctx := context.Background()
	key := func(kind string, i int) string { return kind + "/" + strconv.Itoa(len(data)) + "/" + strconv.Itoa(i) }
	if err := store.Put(ctx, key("get", 0), data); err != nil {
		b.Fatal(err)
	}
	for op, call := range map[string]func(i int) error{
		"put": func(i int) error { return store.Put(ctx, key("put", i), data) },
		"put-raw": func(i int) error {
			sum := sha256.Sum256(data)
			_, err := store.Core().PutObject(ctx, store.Bucket(), key("raw", i), bytes.NewReader(data), int64(len(data)), "",
				hex.EncodeToString(sum[:]), minio.PutObjectOptions{DisableContentSha256: true})
			return err
		},
		"get": func(int) error { _, err := store.Get(ctx, key("get", 0), 0, int64(len(data))); return err },
		"get-raw": func(int) error {
			var options minio.GetObjectOptions
			if err := options.SetRange(0, int64(len(data))-1); err != nil {
				return err
			}
			body, _, _, err := store.Core().GetObject(ctx, store.Bucket(), key("get", 0), options)
			if err != nil {
				return err
			}
			defer body.Close()
			_, err = io.ReadFull(body, make([]byte, len(data)))
			return err
		},
	} {
		b.Run(name+"/"+strconv.Itoa(len(data)>>10)+"KiB/"+op, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if err := call(i); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			for name, part := range map[string]int{"p50-ms": 50, "p99-ms": 99} {
				b.ReportMetric(float64(took[len(took)*part/100].Microseconds())/1000, name)
			}
		})
	}
}
