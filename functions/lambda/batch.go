package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"
)

const (
	// batchWorkers bounds the messages of a batch that are appended at once. Appends to one stream share commits.
	batchWorkers = 32
	// batchLeast is what must be left of the time for another message to be begun.
	batchLeast = 500 * time.Millisecond
)

// message is one message of a queue, with the outcome of its append.
type message struct {
	events.SQSMessage
	done bool
}

// group is what a FIFO queue calls by that name: its messages are appended in their order. Messages of other queues have
// no order, and are groups of one.
const groupAttribute = "MessageGroupId"

// batch appends the messages of a queue, each an append as a direct invocation has it, and tells the queue which of them it
// shall deliver again: those that failed, and those of a group behind one that failed. Nothing is dropped: what can never
// succeed is for the queue's dead-letter queue. A message in doubt is delivered again, too, and then appended twice if it
// was applied, unless it has a match_seq_num: queues deliver at least once.
func (s *Server) batch(ctx context.Context, event []byte) (any, error) {
	groups, all, err := messagesOf(event)
	if err != nil {
		return nil, err
	}
	answer, cut := deadlines(ctx, queue)
	var work errgroup.Group
	work.SetLimit(batchWorkers)
	for _, group := range groups {
		work.Go(func() error {
			for _, m := range group {
				if time.Until(answer) < batchLeast || !s.message(ctx, answer, m) {
					break
				}
				m.done = true
			}
			return nil
		})
	}
	_ = work.Wait() // none fails
	s.settleBy(ctx, cut)
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, m := range all {
		if !m.done {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return encode(response)
}

// errNoID refuses a batch in which one could not be told apart; nothing of it was appended.
var errNoID = errors.New("a message of the batch has no messageId")

// messagesOf reads a batch into its groups, and in its own order.
func messagesOf(event []byte) (groups [][]*message, all []*message, err error) {
	var batch events.SQSEvent
	if err := json.Unmarshal(event, &batch); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	at := map[string]int{}
	for i := range batch.Records {
		m := &message{SQSMessage: batch.Records[i]}
		if m.MessageId == "" {
			return nil, nil, fmt.Errorf("%w: %w", ErrEvent, errNoID)
		}
		all = append(all, m)
		name := m.Attributes[groupAttribute]
		n, ok := at[name]
		if !ok || name == "" {
			n = len(groups)
			groups = append(groups, nil)
			at[name] = n
		}
		groups[n] = append(groups[n], m)
	}
	return groups, all, nil
}

// message appends one message, and reports whether it is in its stream.
func (s *Server) message(ctx context.Context, by time.Time, m *message) bool {
	var q Request
	err := decodeStrict([]byte(m.Body), &q)
	if err == nil && q.Operation != "" && q.Operation != "append" {
		err = fmt.Errorf("%w: the operation of a message is append", ErrEvent)
	}
	var a Answer
	if err == nil {
		q.Operation = "append"
		a, err = s.perform(ctx, by, &q)
	}
	if err == nil && a.Status/100 == http.StatusOK/100 {
		return true
	}
	var failure struct{ Code string }
	_ = json.Unmarshal(a.Body, &failure) // a body without a code has none
	s.o.Log.Warn().Err(err).Str("message", m.MessageId).Str("group", m.Attributes[groupAttribute]).
		Str("received", m.Attributes["ApproximateReceiveCount"]).Int("status", a.Status).Str("code", failure.Code).Str("applied", a.Applied).
		Msg("a message was not appended; the queue delivers it again")
	return false
}
