package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// figures are what the server did.
type figures struct {
	acks    []point
	in, out float64 // MiB/s
}

// point is a measurement with a number of writers at once.
type point struct {
	writers int
	acks    latencies
	took    time.Duration
}

const stopTimeout = 30 * time.Second

// measureServer starts a server, appends with more and more writers, loads a stream, starts the server anew and reads it.
func measureServer(ctx context.Context, o harness.Options, each time.Duration) (figures, error) {
	var f figures
	server, err := harness.Start(ctx, o)
	if err != nil {
		return f, err
	}
	defer func() { server.Kill() }()
	c := newClient(server.URL)
	if err := c.create(ctx, "acks", "bulk"); err != nil {
		return f, err
	}
	small := batch(1, 1<<10)
	if _, err := c.writers(ctx, "acks", small, 16, each/5); err != nil { // warms both sides up
		return f, err
	}
	for _, writers := range []int{1, 16, 256} {
		p, err := c.writers(ctx, "acks", small, writers, each)
		if err != nil {
			return f, err
		}
		f.acks = append(f.acks, p)
	}
	const recordBytes = 1040 // 1,000 of them, with the 8 metered bytes of each, are just below 1 MiB
	p, err := c.writers(ctx, "bulk", batch(1000, recordBytes), 4, each)
	if err != nil {
		return f, err
	}
	f.in = mib(int64(len(p.acks))*1000*(recordBytes+8)) / p.took.Seconds()
	if err := server.Stop(stopTimeout); err != nil {
		return f, err
	}
	if server, err = harness.Start(ctx, o); err != nil {
		return f, err
	}
	f.out, err = newClient(server.URL).readAll(ctx, "bulk", len(p.acks)*1000, recordBytes+8)
	return f, errors.Join(err, server.Stop(stopTimeout))
}

// batch is the body of an append of n records of a size. The text does not compress to nothing, as zeros would.
func batch(n, size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	type record struct {
		Body string `json:"body"`
	}
	in := struct {
		Records []record `json:"records"`
	}{make([]record, n)}
	state := uint32(1)
	for i := range in.Records {
		var body strings.Builder
		for range size {
			state = state*1664525 + 1013904223
			body.WriteByte(letters[state>>16%uint32(len(letters))])
		}
		in.Records[i].Body = body.String()
	}
	encoded, err := json.Marshal(in)
	if err != nil {
		panic(err) // strings and slices encode
	}
	return encoded
}

// client calls the server over kept connections.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) *client {
	return &client{url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}}
}

func (c *client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("content-type", "application/json")
	request.Header.Set("s2-basin", "benchmark")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %.200s", method, path, response.StatusCode, answer)
	}
	return answer, err
}

func (c *client) create(ctx context.Context, streams ...string) error {
	if _, err := c.do(ctx, http.MethodPost, "/v1/basins", []byte(`{"basin":"benchmark"}`)); err != nil {
		return err
	}
	for _, stream := range streams {
		if _, err := c.do(ctx, http.MethodPost, "/v1/streams", fmt.Appendf(nil, `{"stream":%q}`, stream)); err != nil {
			return err
		}
	}
	return nil
}

// writers lets n writers append the same body again and again, each waiting for its answer, for a while.
func (c *client) writers(ctx context.Context, stream string, body []byte, n int, each time.Duration) (point, error) {
	took, errs := make([]latencies, n), make([]error, n)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range n {
		all.Go(func() {
			for errs[i] == nil && time.Since(begin) < each {
				since := time.Now()
				_, errs[i] = c.do(ctx, http.MethodPost, "/v1/streams/"+stream+"/records", body)
				took[i] = append(took[i], time.Since(since))
			}
		})
	}
	all.Wait()
	return point{n, slices.Concat(took...), time.Since(begin)}, errors.Join(errs...)
}

// readAll reads a stream of records of one metered size from its start and returns MiB/s of metered bytes.
func (c *client) readAll(ctx context.Context, stream string, records, metered int) (float64, error) {
	since := time.Now()
	for next := 0; next < records; {
		answer, err := c.do(ctx, http.MethodGet, fmt.Sprintf("/v1/streams/%s/records?seq_num=%d&count=1000", stream, next), nil)
		if err != nil {
			return 0, err
		}
		// Decoding would measure the client; counting a key that every record has once is enough.
		got := bytes.Count(answer, []byte(`"seq_num":`))
		if bytes.Contains(answer, []byte(`"tail":`)) {
			got--
		}
		if got <= 0 {
			return 0, fmt.Errorf("a read at %d of %d records brought none", next, records)
		}
		next += got
	}
	return mib(int64(records)*int64(metered)) / time.Since(since).Seconds(), nil
}
