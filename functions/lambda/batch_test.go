package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
)

// sqsEvent makes a batch: "group/id body" for each message, group empty for a standard queue.
func sqsEvent(messages ...[3]string) string {
	var records []any
	for _, m := range messages {
		attributes := map[string]string{"ApproximateReceiveCount": "1"}
		if m[0] != "" {
			attributes["MessageGroupId"] = m[0]
		}
		records = append(records, map[string]any{"messageId": m[1], "body": m[2], "attributes": attributes, "eventSource": "aws:sqs"})
	}
	event, _ := json.Marshal(map[string]any{"Records": records})
	return string(event)
}

func append1(stream, body string, more ...string) string {
	return fmt.Sprintf(`{"basin":%q,"stream":%q,"records":[{"body":%q}]%s}`, basin, stream, body, strings.Join(more, ""))
}

func failures(t *testing.T, answer string) []string {
	t.Helper()
	got := decode[struct {
		BatchItemFailures *[]struct{ ItemIdentifier string }
	}](t, answer)
	if got.BatchItemFailures == nil {
		t.Fatalf("no list of failures in %s", answer)
	}
	var ids []string
	for _, f := range *got.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return ids
}

func TestBatchOfAQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if got := failures(t, r.must(Append, fixture(t, "sqs"))); got != nil || !slices.Equal(r.records("queue"), []string{"one"}) {
		t.Errorf("failures %q, records %q", got, r.records("queue"))
	}
	event := sqsEvent(
		[3]string{"", "1", append1("standard", "a")}, [3]string{"", "2", `{"poison`}, [3]string{"", "3", append1("standard", "b", `,"match_seq_num":99`)},
		[3]string{"", "4", append1("standard", "c")}, [3]string{"", "5", `{"operation":"read","basin":"` + basin + `","stream":"standard"}`},
		[3]string{"", "6", append1("standard", "d", `,"no_such_member":1`)},
	)
	if got := failures(t, r.must(Append, event)); !slices.Equal(got, []string{"2", "3", "5", "6"}) {
		t.Errorf("failures are %q", got)
	}
	got := r.records("standard")
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("the stream has %q", got)
	}
	contains(t, "the log", r.log.String(), `"message":"3"`, `"status":412`, `"applied":"no"`)
	if strings.Contains(r.log.String(), "poison") {
		t.Error("the log has a message's body")
	}
}

// What stands behind a failed message of its group is not appended before it; other groups go on.
func TestBatchKeepsTheOrderOfGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var messages [][3]string
	for i := range 10 {
		for _, group := range []string{"x", "y"} {
			body := append1("fifo-"+group, fmt.Sprint(i))
			if group == "x" && i == 4 {
				body = append1("fifo-"+group, "4", `,"fencing_token":"not installed"`)
			}
			messages = append(messages, [3]string{group, fmt.Sprint(group, i), body})
		}
	}
	got := failures(t, r.must(Append, sqsEvent(messages...)))
	if want := []string{"x4", "x5", "x6", "x7", "x8", "x9"}; !slices.Equal(got, want) {
		t.Errorf("failures are %q, want %q", got, want)
	}
	if x, y := r.records("fifo-x"), r.records("fifo-y"); strings.Join(x, "") != "0123" || strings.Join(y, "") != "0123456789" {
		t.Errorf("the streams have %q and %q", x, y)
	}
}

func TestBatchWithoutIDsIsRefusedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if _, err := r.handle(Append, sqsEvent([3]string{"", "1", append1("s", "a")}, [3]string{"", "", append1("s", "b")})); err == nil {
		t.Error("it was taken")
	}
	if got := r.records("s"); got != nil {
		t.Errorf("%q was appended", got)
	}
}

// What there is no time for is not begun, and delivered again.
func TestBatchThatHasNoTimeLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), batchLeast)
	defer cancel()
	answer, err := r.servers[Append].Handle(ctx, json.RawMessage(sqsEvent([3]string{"", "1", append1("s", "a")})))
	if err != nil || !slices.Equal(failures(t, string(answer.(json.RawMessage))), []string{"1"}) || r.records("s") != nil {
		t.Errorf("%s, %v, records %q", answer, err, r.records("s"))
	}
}

// An append whose outcome is not known when the time is over is delivered again, and the log says that it is in doubt.
func TestBatchInDoubt(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	r := newRig(t, func(b *stores.Backend, _ *Options) {
		b.Heads = failing{b.Heads, func(ctx context.Context, id segments.StreamID, c *coordinator.Commit, next coordinator.Heads) (coordinator.Head, error) {
			h, err := next.Commit(ctx, id, c)
			if lose.Load() {
				<-ctx.Done()
				return coordinator.Head{}, ctx.Err()
			}
			return h, err
		}}
	})
	lose.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	answer, err := r.servers[Append].Handle(ctx, json.RawMessage(sqsEvent([3]string{"", "1", append1("s", "a")})))
	if err != nil || !slices.Equal(failures(t, string(answer.(json.RawMessage))), []string{"1"}) {
		t.Errorf("%s, %v", answer, err)
	}
	contains(t, "the log", r.log.String(), `"applied":"unknown"`)
}
