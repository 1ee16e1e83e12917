package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
)

// s2LiteVariable names the program of an independent S2 server, S2's own: `s2`, as `cargo install --locked s2-cli` makes it.
const s2LiteVariable = "TAILRACE_S2_LITE"

// What the client does with any S2 server, it does with ours.
func TestClientWithAnyServer(t *testing.T) {
	t.Parallel()
	clientWith(t, start(t, dataFolder(t)).URL)
}

// It does the same with a server that others wrote, which knows no header of ours. It runs where somebody has built that
// one: it takes longer than all other tests together.
func TestClientWithS2Lite(t *testing.T) {
	t.Parallel()
	clientWith(t, startS2Lite(t, os.Getenv(s2LiteVariable)))
}

func clientWith(t *testing.T, url string) {
	t.Helper()
	c := goClient(t, url, tailrace.Options{})
	for name, test := range map[string]func(*testing.T, *tailrace.Client){
		"Resources": clientResources, "Records": clientRecords, "Conditions": clientConditions,
		"Ranges": clientRanges, "Commands": clientCommands, "Producer": clientProducer, "Session": clientSession,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// startS2Lite starts the independent server, which keeps everything in memory.
func startS2Lite(t *testing.T, bin string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close() // it takes a number only
	cmd := exec.Command(bin, "lite", "--port", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // our own child
		_ = cmd.Wait()
	})
	url := "http://127.0.0.1:" + port
	eventually(t, "the S2 server answers", func() bool {
		answer, err := http.Get(url + "/health")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	return url
}

// goClient is the Go client of a server.
func goClient(t *testing.T, url string, o tailrace.Options) *tailrace.Client {
	t.Helper()
	c, err := tailrace.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bounded bounds a test's calls.
func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// goStream makes a basin and a stream in it.
func goStream(t *testing.T, c *tailrace.Client, basin string) *tailrace.Stream {
	t.Helper()
	ctx := bounded(t, 30*time.Second)
	if _, err := c.Basin(basin).Create(ctx, tailrace.BasinSpec{}); err != nil {
		t.Fatal(err)
	}
	s := c.Basin(basin).Stream("log")
	if _, err := s.Create(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// try fails the test if there is an error, and gives the value.
func try[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// collect reads to the end.
func collect(t *testing.T, records func(func(tailrace.Record, error) bool)) (all []tailrace.Record) {
	t.Helper()
	for r, err := range records {
		if err != nil {
			t.Fatalf("after %d records: %v", len(all), err)
		}
		all = append(all, r)
	}
	return all
}

func texts(records []tailrace.Record) (all []string) {
	for _, r := range records {
		all = append(all, string(r.Body))
	}
	return all
}

func clientResources(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	b := c.Basin("client-resources")
	if made := try(b.Create(ctx, tailrace.BasinSpec{}))(t); made.Result != tailrace.Created || made.Info.Name != b.Name() {
		t.Errorf("created: %+v", made)
	}
	if _, err := b.Create(ctx, tailrace.BasinSpec{}); !errors.Is(err, tailrace.ErrAlreadyExists) || tailrace.Indefinite(err) {
		t.Errorf("created twice: %v", err)
	}
	onAppend := true
	if config := try(b.Reconfigure(ctx, tailrace.BasinReconfiguration{CreateStreamOnAppend: &onAppend}))(t); !config.CreateStreamOnAppend {
		t.Errorf("reconfigured: %+v", config)
	}
	if config := try(b.Config(ctx))(t); !config.CreateStreamOnAppend || config.CreateStreamOnRead {
		t.Errorf("config: %+v", config)
	}
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("a/%d ü?#%%", i)
		want = append(want, name)
		try(b.Stream(name).Append(ctx, tailrace.Text("made by an append")))(t)
	}
	var got []string
	for info, err := range b.Streams(ctx, tailrace.ListOptions{Prefix: "a/", PageSize: 3}) {
		got = append(got, try(info, err)(t).Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	s := b.Stream("configured")
	if made := try(s.Ensure(ctx, nil))(t); made.Result != tailrace.Created {
		t.Errorf("ensured: %+v", made)
	}
	if made := try(s.Ensure(ctx, nil))(t); made.Result != tailrace.Noop {
		t.Errorf("ensured again: %+v", made)
	}
	if config := try(s.Config(ctx))(t); config.RetentionPolicy == nil || config.RetentionPolicy.Age != 7*24*60*60 {
		t.Errorf("the default config: %+v", config)
	}
	try(s.Delete(ctx))(t)
	if _, err := s.Append(ctx, tailrace.Text("late")); !errors.Is(err, tailrace.ErrDeletionPending) && !errors.Is(err, tailrace.ErrNotFound) && err != nil {
		t.Errorf("append to a deleted stream: %v", err)
	}
	if _, err := c.Basin("client-no-basin").Stream("x").CheckTail(ctx); !errors.Is(err, tailrace.ErrNotFound) {
		t.Errorf("check the tail of nothing: %v", err)
	}
	try(b.Delete(ctx))(t)
}

func clientRecords(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	s := goStream(t, c, "client-records")
	at := uint64(1_700_000_000_000)
	sent := []tailrace.AppendRecord{
		{Headers: []tailrace.Header{{Name: []byte("k"), Value: []byte{0, 255}}, {Name: []byte("k"), Value: nil}}, Body: []byte{0, 1, 254}},
		{Timestamp: at, HasTimestamp: true},
		tailrace.Text("text"),
	}
	ack := try(s.Append(ctx, sent...))(t)
	if ack.Start.SeqNum != 0 || ack.End.SeqNum != 3 || ack.Tail.SeqNum != 3 {
		t.Errorf("acknowledged: %+v", ack)
	}
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 3 {
		t.Errorf("the tail is %+v", tail)
	}
	unary := try(s.ReadBatch(ctx, tailrace.ReadOptions{}))(t).Records
	session := collect(t, s.Read(ctx, tailrace.ReadOptions{}))
	for _, got := range [][]tailrace.Record{unary, session} {
		if len(got) != len(sent) {
			t.Fatalf("read %d records, want %d", len(got), len(sent))
		}
		for i, r := range got {
			if r.SeqNum != uint64(i) || !bytes.Equal(r.Body, sent[i].Body) || len(r.Headers) != len(sent[i].Headers) {
				t.Errorf("record %d is %+v", i, r)
			}
			for j, h := range r.Headers {
				if want := sent[i].Headers[j]; !bytes.Equal(h.Name, want.Name) || !bytes.Equal(h.Value, want.Value) {
					t.Errorf("header %d of record %d is %q", j, i, h)
				}
			}
		}
	}
	// The limits that the client cuts batches by are the server's.
	largest := tailrace.Bytes(make([]byte, tailrace.MaxBatchBytes-tailrace.MeteredSize(new(tailrace.AppendRecord))))
	try(s.Append(ctx, largest))(t)
	try(s.Append(ctx, make([]tailrace.AppendRecord, tailrace.MaxBatchRecords)...))(t)
	for _, records := range [][]tailrace.AppendRecord{
		{tailrace.Bytes(make([]byte, len(largest.Body)+1))}, make([]tailrace.AppendRecord, tailrace.MaxBatchRecords+1), nil,
	} {
		if _, err := s.Append(ctx, records...); err == nil || tailrace.Indefinite(err) {
			t.Errorf("a batch beyond the limits: %v", err)
		}
	}
}

func clientConditions(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	s := goStream(t, c, "client-conditions")
	try(s.AppendMatch(ctx, 0, tailrace.Text("first")))(t)
	_, err := s.AppendMatch(ctx, 0, tailrace.Text("only if empty"))
	if miss := new(tailrace.SequenceError); !errors.As(err, &miss) || miss.Tail != 1 || miss.Resent || tailrace.Indefinite(err) {
		t.Errorf("BL-006: append that expects 0: %v", err)
	}
	try(s.Append(ctx, tailrace.FenceCommand("owner")))(t)
	_, err = s.Presenting("other").Append(ctx, tailrace.Text("late"))
	if fenced := new(tailrace.FenceError); !errors.As(err, &fenced) || fenced.Installed != "owner" || !errors.Is(err, tailrace.ErrFenced) {
		t.Errorf("append with another token: %v", err)
	}
	try(s.Presenting("owner").AppendMatch(ctx, 2, tailrace.Text("both hold")))(t)
	// BL-018: the limit of a token is in bytes, and is met before anything is sent.
	for token, fine := range map[string]bool{"😀😀😀😀😀😀😀😀😀": true, "😀😀😀😀😀😀😀😀😀x": false} {
		_, err := s.Presenting(token).Append(ctx, tailrace.Text("x"))
		if errors.Is(err, tailrace.ErrFenced) != fine || err == nil || tailrace.Indefinite(err) {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 3 {
		t.Errorf("the tail is %d: a refused append has appended", tail.SeqNum)
	}
}

func clientRanges(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	s := goStream(t, c, "client-ranges")
	if got := collect(t, s.Read(ctx, tailrace.ReadOptions{})); len(got) != 0 {
		t.Errorf("read of an empty stream: %v", got)
	}
	var records []tailrace.AppendRecord
	for i := range 10 {
		records = append(records, tailrace.AppendRecord{Timestamp: uint64(100 + i), HasTimestamp: true, Body: fmt.Append(nil, i)})
	}
	try(s.Append(ctx, records...))(t)
	for name, test := range map[string]struct {
		o    tailrace.ReadOptions
		want []string
	}{
		"by number":    {tailrace.ReadOptions{Start: tailrace.FromSeqNum(7)}, []string{"7", "8", "9"}},
		"by time":      {tailrace.ReadOptions{Start: tailrace.FromTimestamp(108)}, []string{"8", "9"}},
		"by tail":      {tailrace.ReadOptions{Start: tailrace.FromTail(2)}, []string{"8", "9"}},
		"at the tail":  {tailrace.ReadOptions{Start: tailrace.FromTail(0)}, nil},
		"count":        {tailrace.ReadOptions{Start: tailrace.FromSeqNum(3), Count: 2}, []string{"3", "4"}},
		"bytes":        {tailrace.ReadOptions{Bytes: 20}, []string{"0", "1"}},
		"until":        {tailrace.ReadOptions{Start: tailrace.FromSeqNum(1), Until: 103}, []string{"1", "2"}},
		"count at end": {tailrace.ReadOptions{Start: tailrace.FromSeqNum(10), Count: 2}, nil},
		"clamped":      {tailrace.ReadOptions{Start: tailrace.FromSeqNum(99), Clamp: true}, nil},
	} {
		if got := texts(collect(t, s.Read(ctx, test.o))); !slices.Equal(got, test.want) {
			t.Errorf("%s: read %q, want %q", name, got, test.want)
		}
	}
	// BL-034: beyond the tail, and at it where that cannot be told from it, the tail is told.
	beyond := tailrace.ReadOptions{Start: tailrace.FromSeqNum(11)}
	for name, err := range map[string]error{
		"read": firstError(s.Read(ctx, beyond)), "follow": firstError(s.Follow(ctx, beyond)),
		"batch": errorOf(s.ReadBatch(ctx, tailrace.ReadOptions{Start: tailrace.FromSeqNum(10)})),
	} {
		if out := new(tailrace.RangeError); !errors.As(err, &out) || out.Tail.SeqNum != 10 || !errors.Is(err, tailrace.ErrOutOfRange) {
			t.Errorf("BL-034: %s: %v", name, err)
		}
	}
}

func firstError(records func(func(tailrace.Record, error) bool)) error {
	for _, err := range records {
		return err
	}
	return nil
}

func errorOf[T any](_ T, err error) error { return err }

// BL-040: command records count for limits and move the position, whether they are shown or not.
func clientCommands(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	s := goStream(t, c, "client-commands")
	for i := range 50 {
		try(s.Append(ctx, tailrace.FenceCommand(fmt.Sprint(i))))(t)
	}
	try(s.Append(ctx, tailrace.Text("data")))(t)
	if got := collect(t, s.Read(ctx, tailrace.ReadOptions{Count: 1, SkipCommands: true})); len(got) != 0 {
		t.Errorf("a limit of one, used up by a command, brought %q", texts(got))
	}
	if got := texts(collect(t, s.Read(ctx, tailrace.ReadOptions{SkipCommands: true}))); !slices.Equal(got, []string{"data"}) {
		t.Errorf("without commands there is %q", got)
	}
	if got := collect(t, s.Read(ctx, tailrace.ReadOptions{})); len(got) != 51 || !tailrace.IsCommand(&got[0]) || tailrace.IsCommand(&got[50]) {
		t.Errorf("with commands there are %d records", len(got))
	}
	try(s.Trim(ctx, 50))(t)
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 52 {
		t.Errorf("the tail after a trim is %d", tail.SeqNum)
	}
}

// A producer's records come in order, to a follower that was there before them and to one that comes after.
func clientProducer(t *testing.T, c *tailrace.Client) {
	const records = 5000
	ctx := bounded(t, 120*time.Second)
	s := goStream(t, c, "client-producer")
	early, following := make(chan []string, 1), make(chan struct{})
	go func() {
		var got []string
		begin := sync.OnceFunc(func() { close(following) })
		defer begin()
		for b, err := range s.FollowBatches(ctx, tailrace.ReadOptions{Start: tailrace.FromTail(0), Count: records}) {
			if err != nil {
				t.Error(err)
				break
			}
			begin()
			got = append(got, texts(b.Records)...)
		}
		early <- got
	}()
	<-following
	match := uint64(0)
	p := try(s.Produce(ctx, tailrace.ProducerOptions{Match: &match, InflightBytes: 1, BatchRecords: 100}))(t)
	var want []string
	var receipts []tailrace.Receipt
	for i := range records {
		want = append(want, fmt.Sprintf("record %d", i))
		receipts = append(receipts, try(p.Submit(ctx, tailrace.Text(want[i])))(t))
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if n := try(r.Wait(ctx))(t); n != uint64(i) {
			t.Fatalf("record %d is at %d", i, n)
		}
	}
	if p.Expected() != records {
		t.Errorf("expected is %d", p.Expected())
	}
	if _, err := p.Submit(ctx, tailrace.Text("late")); !errors.Is(err, tailrace.ErrClosed) || tailrace.Indefinite(err) {
		t.Errorf("submitted to a closed producer: %v", err)
	}
	late := texts(collect(t, s.Follow(ctx, tailrace.ReadOptions{Count: records})))
	for name, got := range map[string][]string{"early": <-early, "late": late} {
		if !slices.Equal(got, want) {
			t.Errorf("the %s follower got %d records", name, len(got))
		}
	}
}

// The first batch that fails ends a session: those before it are acknowledged, those after it are not applied.
func clientSession(t *testing.T, c *tailrace.Client) {
	ctx := bounded(t, 60*time.Second)
	s := goStream(t, c, "client-session")
	a := try(s.OpenSession(ctx, tailrace.SessionOptions{}))(t)
	var pending []*tailrace.Pending
	for _, match := range []uint64{0, 1, 7, 2, 3} {
		p, err := a.Submit(ctx, tailrace.Batch{Records: []tailrace.AppendRecord{tailrace.Text("x")}, MatchSeqNum: &match})
		if err != nil {
			if !errors.Is(err, tailrace.ErrSkipped) {
				t.Fatal(err)
			}
			continue // the failure was there first
		}
		pending = append(pending, p)
	}
	for i, p := range pending {
		ack, err := p.Wait(ctx)
		switch {
		case i < 2:
			if err != nil || ack.Start.SeqNum != uint64(i) {
				t.Errorf("batch %d: %+v, %v", i, ack, err)
			}
		case tailrace.Indefinite(err), !errors.Is(err, tailrace.ErrSequence), errors.Is(err, tailrace.ErrSkipped) != (i > 2):
			t.Errorf("batch %d: %v", i, err)
		}
	}
	if err := a.Close(ctx); !errors.Is(err, tailrace.ErrSequence) {
		t.Errorf("the session ended with %v", err)
	}
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 2 {
		t.Errorf("the tail is %d", tail.SeqNum)
	}
}
