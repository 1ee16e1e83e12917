package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/tailrace-streams/tailrace/client"
)

// newStream makes a stream for an example.
func newStream(ctx context.Context, basin string) *client.Stream {
	c, err := client.New(server, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Basin(basin).Create(ctx, client.BasinSpec{}); err != nil {
		log.Fatal(err)
	}
	s := c.Basin(basin).Stream("log")
	if _, err := s.Create(ctx, nil); err != nil {
		log.Fatal(err)
	}
	return s
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(server, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Basin("tea-house").Create(ctx, client.BasinSpec{}); err != nil {
		log.Fatal(err)
	}
	orders := c.Basin("tea-house").Stream("orders")
	if _, err := orders.Create(ctx, nil); err != nil {
		log.Fatal(err)
	}
	ack, err := orders.Append(ctx, client.Text("one tea"), client.Text("two scones"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next order is number", ack.End.SeqNum)
	for record, err := range orders.Read(ctx, client.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", record.SeqNum, record.Body)
	}
	// Output:
	// the next order is number 2
	// 0: one tea
	// 1: two scones
}

// One of several processes leads: it fences the stream with a token of its own and writes presenting it. When another takes
// over, whatever the one before still sends is refused, also after it slept for an hour.
func Example_leaderElection() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := newStream(ctx, "leader-election")
	lead := func(token string) *client.Stream {
		boundary, err := s.Fence(ctx, token) // the token before need not be known
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s leads from record %d on\n", token, boundary.Tail.SeqNum)
		return s.Presenting(token)
	}
	first := lead("process-1")
	if _, err := first.Append(ctx, client.Text("decision of the first")); err != nil {
		log.Fatal(err)
	}
	second := lead("process-2")
	if _, err := second.Append(ctx, client.Text("decision of the second")); err != nil {
		log.Fatal(err)
	}
	_, err := first.Append(ctx, client.Text("too late"))
	var fenced *client.FenceError
	if errors.As(err, &fenced) {
		fmt.Printf("the first is replaced by %s; was anything applied? %v\n", fenced.Installed, client.Indefinite(err))
	}
	// Output:
	// process-1 leads from record 0 on
	// process-2 leads from record 1 on
	// the first is replaced by process-2; was anything applied? false
}

// Lines are ingested exactly once, however often the program dies in the middle: record n of the stream is line n of the
// source, so the tail says where to go on, and every batch is conditional on what came before it.
func Example_exactlyOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := newStream(ctx, "exactly-once").WithRetry(client.RetryAll) // a condition makes repeats safe
	lines := []string{"a", "b", "c", "d", "e"}
	ingest := func(upTo int) error {
		tail, err := s.CheckTail(ctx)
		if err != nil {
			return err
		}
		next := tail.SeqNum
		p, err := s.Produce(ctx, client.ProducerOptions{Match: &next})
		if err != nil {
			return err
		}
		for _, line := range lines[next:upTo] {
			if _, err := p.Submit(ctx, client.Text(line)); err != nil {
				break // Close has the reason
			}
		}
		// A failure may mean that a batch landed whose acknowledgement was lost, or that another ingests the same: in every
		// case the next run begins at the tail.
		return p.Close(ctx)
	}
	for _, upTo := range []int{2, 5, 5} { // a run that dies early, one that ends, one too many
		if err := ingest(upTo); err != nil {
			log.Fatal(err)
		}
	}
	for record, err := range s.Read(ctx, client.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s ", record.Body)
	}
	// Output: a b c d e
}

// An owner that answers from its own memory would have to check the tail for each answer, to know that nobody replaced it.
// A lease in the stream itself saves that: the owner appends heartbeats, and answers freely for a while after each, counted
// from before it was sent. A successor waits for that while, counted from after it has read the last heartbeat, before it
// fences: by then the owner, whose count began earlier, has stopped. The fence keeps out what it may still write.
func Example_lease() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const term = 2 * time.Second
	s := newStream(ctx, "owners-lease")
	own := func(token string) (heartbeat func() time.Time) {
		if _, err := s.Fence(ctx, token); err != nil {
			log.Fatal(err)
		}
		return func() (valid time.Time) {
			begun := time.Now()
			if _, err := s.Presenting(token).Append(ctx, client.Text("heartbeat of "+token)); err != nil {
				return time.Time{} // it may be there or not: nothing can be answered because of it
			}
			return begun.Add(term)
		}
	}
	beat := own("owner-1")
	valid := beat()
	fmt.Println("the first may answer:", time.Now().Before(valid))

	// The successor hears heartbeats until there is none for a term.
	follower := client.ReadOptions{Wait: 3 * time.Second} // more than a term
	for record, err := range s.Follow(ctx, follower) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("heard: %s\n", record.Body)
	}
	next := own("owner-2")
	fmt.Println("the first may answer:", time.Now().Before(valid))
	fmt.Println("the first may write:", !beat().IsZero())
	fmt.Println("the second may answer:", time.Now().Before(next()))
	// Output:
	// the first may answer: true
	// heard: heartbeat of owner-1
	// the first may answer: false
	// the first may write: false
	// the second may answer: true
}

// Replicas of a counter apply the same increments in the same order. Each appends on condition that it has applied
// everything before, and on a miss applies what it lacked and tries again.
func Example_counter() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := newStream(ctx, "a-counter")
	type replica struct {
		value int
		next  uint64 // the first record that is not applied
	}
	catchUp := func(r *replica) error {
		for record, err := range s.Read(ctx, client.ReadOptions{Start: client.FromSeqNum(r.next)}) {
			if err != nil {
				return err
			}
			delta, err := strconv.Atoi(string(record.Body))
			if err != nil {
				return err
			}
			r.value, r.next = r.value+delta, record.SeqNum+1
		}
		return nil
	}
	add := func(r *replica, delta int) error {
		for {
			_, err := s.AppendMatch(ctx, r.next, client.Text(strconv.Itoa(delta)))
			var missed *client.SequenceError
			switch {
			case err == nil:
				return catchUp(r)
			case !errors.As(err, &missed):
				return err // if it is indefinite, the caller reads what is at r.next before it tries again
			}
			if err := catchUp(r); err != nil {
				return err
			}
		}
	}
	var one, two replica
	for _, step := range []struct {
		r     *replica
		delta int
	}{{&one, 5}, {&two, 10}, {&one, -3}} {
		if err := add(step.r, step.delta); err != nil {
			log.Fatal(err)
		}
	}
	if err := catchUp(&two); err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.value, two.value)
	// Output: 12 12
}

// Whoever joins a chat room gets what was said before, and then what is said, in the same order as everybody else; after a
// lost connection it goes on where it was.
func Example_chatRoom() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	room := newStream(ctx, "a-chat-room")
	say := func(who, what string) {
		message := client.Text(what)
		message.Headers = []client.Header{{Name: []byte("from"), Value: []byte(who)}}
		if _, err := room.Append(ctx, message); err != nil {
			log.Fatal(err)
		}
	}
	say("ann", "anybody here?")
	joined, spoken := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(spoken)
		<-joined
		say("bob", "just arrived")
		say("ann", "welcome")
	}()
	for message, err := range room.Follow(ctx, client.ReadOptions{Start: client.FromTail(100), Count: 3}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", message.Headers[0].Value, message.Body)
		if message.SeqNum == 0 {
			close(joined)
		}
	}
	<-spoken // a message can be read before who said it knows that it was taken
	// Output:
	// ann: anybody here?
	// bob: just arrived
	// ann: welcome
}
