package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

const (
	smallBytes = 100       // goes inline: a conditional write is the whole cost
	largeBytes = 63 * 1024 // goes into a segment of 64 KiB, which is what the floor puts
)

// runShared measures a server on a bucket and a table, one append after the other, between two measurements of the stores
// alone: what a local emulator takes differs more from minute to minute than what the server adds.
func runShared(ctx context.Context, bin, work string, each time.Duration) error {
	o := harness.Options{Bin: bin, Data: filepath.Join(work, "data"), Args: []string{"--log-level=error"}}
	server, err := harness.Start(ctx, o)
	if err != nil {
		return err
	}
	defer server.Kill()
	c := newClient(server.URL)
	if err := c.create(ctx, "small", "large"); err != nil {
		return err
	}
	var floors [2][]floorFigure
	small, large := &kind{stream: "small", bytes: smallBytes, floor: floorWrite}, &kind{stream: "large", bytes: largeBytes, floor: floorBoth}
	for i := range floors {
		if floors[i], err = probe(ctx, bin, o.Data, each/2); err != nil {
			return err
		}
		for _, k := range []*kind{small, large} {
			if err := k.run(ctx, c, each/2); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n## %s, commit %s\n\n", time.Now().UTC().Format(time.DateOnly), commit(ctx))
	fmt.Printf("`%s`; %s/%s, %d cores, %s, %s.\n\n", command(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(),
		storesName())
	fmt.Print("| figure | p50 / p99 | to its floor |\n|---|---|---|\n")
	for i, first := range floors[0] {
		again := floors[1][i]
		fmt.Printf("| floor: %s, before / after | %.2f / %.2f, %.2f / %.2f ms | 1 |\n", first.What, first.P50, first.P99, again.P50, again.P99)
	}
	mean := func(i int, of func(floorFigure) float64) float64 { return (of(floors[0][i]) + of(floors[1][i])) / 2 }
	p50, p99 := func(f floorFigure) float64 { return f.P50 }, func(f floorFigure) float64 { return f.P99 }
	for _, k := range []*kind{small, large} {
		fmt.Printf("| ack, %d bytes, 1 writer | %s | %.2f / %.2f |\n", k.bytes, pair(k.took),
			ms(k.took.at(0.5))/mean(k.floor, p50), ms(k.took.at(0.99))/mean(k.floor, p99))
		fmt.Printf("| of it in the server, and in its calls of the stores, means | %.2f, %.2f ms | %.2f |\n",
			1000*k.inServer.mean(), 1000*k.inStores(), k.inServer.mean()/k.inStores())
	}
	return server.Stop(stopTimeout)
}

// kind is one way to append, and what it took: for the client, in the server, and in the store calls that it waits for.
type kind struct {
	stream                 string
	bytes, floor           int
	took                   latencies
	inServer, puts, commit sum
}

// sum is one of the server's own histograms.
type sum struct{ seconds, count float64 }

func (s sum) mean() float64 {
	if s.count == 0 {
		return 0
	}
	return s.seconds / s.count
}

// inStores is the time of a PUT, if there is one to each append, and of a commit.
func (k *kind) inStores() float64 {
	if k.floor == floorBoth {
		return k.puts.mean() + k.commit.mean()
	}
	return k.commit.mean()
}

func (k *kind) run(ctx context.Context, c *client, each time.Duration) error {
	before, err := c.sums(ctx)
	if err != nil {
		return err
	}
	p, err := c.writers(ctx, k.stream, batch(1, k.bytes), 1, each)
	if err != nil {
		return err
	}
	after, err := c.sums(ctx)
	if err != nil {
		return err
	}
	k.took = append(k.took, p.acks...)
	for name, to := range map[string]*sum{ackSum: &k.inServer, putSum: &k.puts, commitSum: &k.commit} {
		to.seconds += after[name].seconds - before[name].seconds
		to.count += after[name].count - before[name].count
	}
	return nil
}

// The histograms by their names and labels.
const (
	ackSum    = "tailrace_append_ack_latency_seconds"
	putSum    = `tailrace_store_call_duration_seconds{call="put",store="objects"}`
	commitSum = `tailrace_store_call_duration_seconds{call="commit",store="heads"}`
)

// sums reads the server's histograms.
func (c *client) sums(ctx context.Context) (map[string]sum, error) {
	text, err := c.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	all := map[string]sum{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		for _, part := range []string{"_sum", "_count"} {
			if !strings.Contains(name, part) {
				continue
			}
			s := all[strings.Replace(name, part, "", 1)]
			if part == "_sum" {
				s.seconds = number
			} else {
				s.count = number
			}
			all[strings.Replace(name, part, "", 1)] = s
		}
	}
	if _, there := all[commitSum]; !there {
		return nil, fmt.Errorf("the metrics lack %s", commitSum)
	}
	return all, nil
}

// floorFigure is one line of tailrace admin probe.
type floorFigure struct {
	What  string  `json:"what"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Calls int     `json:"calls"`
}

// Where the floors are in what it prints: one conditional write, and one PUT with one.
const (
	floorWrite = 0
	floorBoth  = 2
)

// probe measures the stores by the server's own client libraries, from a process of its own.
func probe(ctx context.Context, bin, data string, each time.Duration) ([]floorFigure, error) {
	stores, err := harness.StoreFlags(ctx, bin, data)
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, bin, append([]string{"admin", "probe", "--json", "--log-level=error",
		"--each=" + (each / 3).String()}, stores...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("probe the stores: %w", err)
	}
	var figures []floorFigure
	if err := json.Unmarshal(out, &figures); err != nil || len(figures) != 3 {
		return nil, fmt.Errorf("probe the stores: it printed %q, %w", out, err)
	}
	return figures, nil
}

// storesName names the servers that the tools started.
func storesName() string {
	s3, _, err := harness.Endpoints()
	if err != nil {
		return "unknown stores"
	}
	if harness.BucketAlone() {
		return harness.S3Name(s3) + " alone on the same machine"
	}
	return harness.S3Name(s3) + " and dynalite on the same machine"
}
