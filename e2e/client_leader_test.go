package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
)

// leaderVariable makes this test's program the one below instead: URL, basin, and a name for itself, with blanks between.
const leaderVariable = "TAILRACE_E2E_LEADER"

// lead is a program that wants to be the only writer of a stream, by the documented pattern: a token that nobody else has,
// Fence it, and write presenting it. When it is told that another leads it waits a little and takes over again. It prints
// each acknowledgement before it goes on, and ends by itself after a time, should its parent not live to end it.
func lead(about string) int {
	fields := strings.Fields(about)
	c, err := tailrace.New(fields[0], tailrace.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := c.Basin(fields[1]).Stream("log")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for term := 0; ctx.Err() == nil; term++ {
		token := fmt.Sprintf("%s-%d-%d", fields[2], os.Getpid(), term)
		if _, err := s.Fence(ctx, token); err != nil {
			continue // not installed as far as is known; the next attempt has a token of its own
		}
		err := writeTerm(ctx, s.Presenting(token), token)
		if !errors.Is(err, tailrace.ErrFenced) {
			continue // in doubt or unavailable: this term ends, for what it wrote last is not known
		}
		// Another leads. It is given time, which also lets it be challenged while it works.
		time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
	}
	return 0
}

// writeTerm writes until it may not any more.
func writeTerm(ctx context.Context, s *tailrace.Stream, token string) error {
	for n := 0; ; n++ {
		body := fmt.Sprintf("%s %d", token, n)
		ack, err := s.WithRetry(tailrace.RetryNone).Append(ctx, tailrace.Text(body))
		if err != nil {
			return err
		}
		fmt.Printf("%d %s\n", ack.Start.SeqNum, body)
	}
}

// contender is a running program that leads, and what it said.
type contender struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	acks []string
	done chan struct{}
}

func contend(t *testing.T, url, basin, name string) *contender {
	t.Helper()
	c := &contender{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), leaderVariable+"="+url+" "+basin+" "+name)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		c.read(out)
	}()
	t.Cleanup(c.kill)
	return c
}

// read takes whole lines: the last one of a process that was killed may be half there.
func (c *contender) read(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.acks = append(c.acks, strings.TrimSpace(line))
		c.mu.Unlock()
	}
}

func (c *contender) said() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acks)
}

func (c *contender) kill() {
	_ = c.cmd.Process.Kill() // our own child
	<-c.done
	_ = c.cmd.Wait()
}

// Two programs fight for one stream, are stopped in the middle and go on as if nothing had been, are killed and come again:
// in each term exactly one writes. No record of a term comes after one of a later term, and what a program was told is
// stored is there, where it was told.
func TestN12_TwoProgramsFightForOneStream(t *testing.T) {
	t.Parallel()
	const rounds = 12
	server := start(t, dataFolder(t))
	s := exclusive(t, goClient(t, server.URL, tailrace.Options{}), "client-leaders")
	two := []*contender{contend(t, server.URL, s.Basin().Name(), "a"), contend(t, server.URL, s.Basin().Name(), "b")}
	all := append([]*contender(nil), two...)
	for round := range rounds {
		for _, c := range two {
			before := c.said()
			eventually(t, "both lead in turn", func() bool { return c.said() > before+3 })
		}
		victim := round % 2
		if round%4 < 2 {
			// The other one takes over while this one sleeps; it wakes in the belief that it leads.
			if err := two[victim].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			before := two[1-victim].said()
			eventually(t, "the other leads", func() bool { return two[1-victim].said() > before+10 })
			if err := two[victim].cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			continue
		}
		two[victim].kill()
		two[victim] = contend(t, server.URL, s.Basin().Name(), string(rune('a'+victim)))
		all = append(all, two[victim])
	}
	for _, c := range two {
		c.kill()
	}
	checkTerms(t, collect(t, s.Read(bounded(t, 60*time.Second), tailrace.ReadOptions{})), all)
}

// checkTerms checks that each token's records are next to each other, complete and in order, and that acknowledgements are
// true.
func checkTerms(t *testing.T, records []tailrace.Record, all []*contender) {
	t.Helper()
	over, current, terms, next := map[string]bool{}, "", 0, 0
	for _, r := range records {
		token, number, _ := strings.Cut(string(r.Body), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("record %d is %q", r.SeqNum, r.Body)
		}
		if token != current {
			if over[token] {
				t.Fatalf("record %d is of the term %s, which was over", r.SeqNum, token)
			}
			over[current], current, next = true, token, 0
			terms++
		}
		if n != next {
			t.Fatalf("record %d is %q, want number %d", r.SeqNum, r.Body, next)
		}
		next++
	}
	told := 0
	for _, c := range all {
		for _, line := range c.acks {
			at, body, _ := strings.Cut(line, " ")
			n, err := strconv.Atoi(at)
			if err != nil || n >= len(records) || string(records[n].Body) != body {
				t.Fatalf("%q was acknowledged and is not there", line)
			}
			told++
		}
	}
	t.Logf("%d records in %d terms, %d acknowledged", len(records), terms, told)
	if terms < 10 {
		t.Errorf("only %d terms: nobody fought", terms)
	}
}
