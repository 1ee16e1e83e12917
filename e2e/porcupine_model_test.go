package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/zeebo/xxh3"
)

// This file has the model of a stream that histories are checked against, and the form in which they are written down.

// streamState is what an append, a check of the tail and a full read can tell of a stream.
type streamState struct {
	tail    uint64
	content uint64 // the chain of the records' hashes
	token   string
}

// chain is the hash of a content with one record more.
func chain(content, recordHash uint64) uint64 {
	return xxh3.HashSeed(binary.LittleEndian.AppendUint64(nil, recordHash), content)
}

// chainOf is the hash of a content from its records' bodies.
func chainOf(bodies ...string) (content uint64) {
	for _, b := range bodies {
		content = chain(content, xxh3.HashString(b))
	}
	return content
}

type opKind string

const (
	opAppend    opKind = "Append"
	opCheckTail opKind = "CheckTail"
	opRead      opKind = "Read"
)

// opInput is an operation as it was asked for.
type opInput struct {
	kind   opKind
	hashes []uint64 // of the records to append
	match  *uint64
	token  *string
	fence  *string // the batch is a fence command with this token
}

type opResult int

const (
	succeeded  opResult = iota
	definite            // failed, and nothing was applied
	indefinite          // failed, and may have been applied; of a read or a check of the tail: failed
)

// opOutput is what came of an operation. A refusal tells the state that it is about.
type opOutput struct {
	result    opResult
	tail      uint64  // behind the appended, or of the whole stream
	content   uint64  // of a read
	next      *uint64 // refused: the number that the batch would have got
	installed *string // refused: the token in force
}

// streamModel steps a stream through one operation. It is stricter than S2's own model, which believes every definite
// failure: a refusal must be about a state that the stream was in, and in which the condition did not hold.
//
// An indefinite append takes effect here, and its end is moved behind everything else. That covers both: one that was never
// applied can always be put last, where nobody sees it.
var streamModel = porcupine.Model{
	Init: func() any { return streamState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(streamState), input.(opInput), output.(opOutput)
		if in.kind != opAppend {
			switch {
			case out.result != succeeded:
				return true, s
			case in.kind == opRead && out.content != s.content:
				return false, s
			}
			return out.tail == s.tail, s
		}
		switch out.result {
		case succeeded:
			after := s.apply(in)
			return s.accepts(in) && out.tail == after.tail, after
		case definite:
			return s.refuses(in, out), s
		default:
			if s.accepts(in) {
				return true, s.apply(in)
			}
			return true, s
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func (s streamState) accepts(in opInput) bool {
	return (in.token == nil || *in.token == s.token) && (in.match == nil || *in.match == s.tail)
}

func (s streamState) apply(in opInput) streamState {
	for _, h := range in.hashes {
		s.content = chain(s.content, h)
	}
	s.tail += uint64(len(in.hashes))
	if in.fence != nil {
		s.token = *in.fence
	}
	return s
}

// refuses reports whether a definite failure fits the state. A failure that tells no condition fits any. Fencing is checked
// first (s2-api 14.2).
func (s streamState) refuses(in opInput, out opOutput) bool {
	fenced := in.token != nil && *in.token != s.token
	switch {
	case out.installed != nil:
		return fenced && *out.installed == s.token
	case out.next != nil:
		return !fenced && in.match != nil && *in.match != s.tail && *out.next == s.tail
	}
	return true
}

// logEvent is the start or the end of an operation.
type logEvent struct {
	client, op int
	end        bool
	input      opInput
	output     opOutput // of an end
	// open says that nobody saw the end of an append that took effect: it may have done so at any time since its start.
	open bool
}

// check decides whether a history is linearizable. porcupine.Unknown means that there was not enough time.
func check(history []logEvent, limit time.Duration) porcupine.CheckResult {
	return porcupine.CheckEventsTimeout(streamModel, porcupineEvents(history), limit)
}

func porcupineEvents(history []logEvent) []porcupine.Event {
	silent := map[int]bool{}
	for _, e := range history {
		silent[e.op] = e.end && e.tellsNothing()
	}
	var events, last []porcupine.Event
	for _, e := range history {
		switch {
		case silent[e.op]: // fits any history; while a server is down there are many, and each doubles the work
		case !e.end:
			events = append(events, porcupine.Event{ClientId: e.client, Kind: porcupine.CallEvent, Value: e.input, Id: e.op})
		case e.last():
			last = append(last, porcupine.Event{ClientId: e.client, Kind: porcupine.ReturnEvent, Value: e.output, Id: e.op})
		default:
			events = append(events, porcupine.Event{ClientId: e.client, Kind: porcupine.ReturnEvent, Value: e.output, Id: e.op})
		}
	}
	return append(events, last...)
}

// settle uses what a last read found, after all operations had ended: the hashes of all records in order. An append in doubt
// whose records are there has the place where they are, and one whose records are not there was never applied. Nothing is
// decided by that which the last read, which is part of the history, does not imply; but a checker that has to try each such
// append at each moment takes for ever. Fences of one token look alike and stay in doubt.
func settle(history []logEvent, content []uint64) []logEvent {
	places := map[uint64][]int{}
	for i, h := range content {
		places[h] = append(places[h], i)
	}
	never := map[int]bool{}
	settled := slices.Clone(history)
	for i := range settled {
		e := &settled[i]
		if !e.last() || e.input.fence != nil {
			continue
		}
		at := places[e.input.hashes[0]]
		if len(at) == 0 {
			never[e.op] = true
			continue
		}
		e.output = opOutput{tail: uint64(at[0] + len(e.input.hashes))}
		e.open = true
	}
	return slices.DeleteFunc(settled, func(e logEvent) bool { return never[e.op] })
}

// tellsNothing reports whether an end fits any state and changes none: it failed for a reason that is none of the stream's.
func (e logEvent) tellsNothing() bool {
	if e.input.kind != opAppend {
		return e.output.result != succeeded
	}
	return e.output.result == definite && e.output.next == nil && e.output.installed == nil
}

// writeHistory writes a history as the public checker reads it: a line an event, those of indefinite appends last.
func writeHistory(w io.Writer, history []logEvent) error {
	sorted := slices.Clone(history)
	slices.SortStableFunc(sorted, func(a, b logEvent) int { return boolInt(a.last()) - boolInt(b.last()) })
	for _, e := range sorted {
		event := map[string]any{"Start": e.input.line()}
		if e.end {
			event = map[string]any{"Finish": e.output.line(e.input.kind)}
		}
		line, err := json.Marshal(struct {
			Event  any `json:"event"`
			Client int `json:"client_id"`
			Op     int `json:"op_id"`
		}{event, e.client, e.op})
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}

func (e logEvent) last() bool {
	return e.end && e.input.kind == opAppend && (e.output.result == indefinite || e.open)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (in opInput) line() any {
	if in.kind != opAppend {
		return in.kind
	}
	return map[string]any{"Append": struct {
		Records int      `json:"num_records"`
		Hashes  []uint64 `json:"record_hashes"`
		Fence   *string  `json:"set_fencing_token"`
		Token   *string  `json:"fencing_token"`
		Match   *uint64  `json:"match_seq_num"`
	}{len(in.hashes), in.hashes, in.fence, in.token, in.match}}
}

func (out opOutput) line(kind opKind) any {
	if out.result != succeeded {
		return map[opKind]map[opResult]string{
			opAppend:    {definite: "AppendDefiniteFailure", indefinite: "AppendIndefiniteFailure"},
			opCheckTail: {definite: "CheckTailFailure", indefinite: "CheckTailFailure"},
			opRead:      {definite: "ReadFailure", indefinite: "ReadFailure"},
		}[kind][out.result]
	}
	result := map[string]any{"tail": out.tail}
	if kind == opRead {
		result["stream_hash"] = out.content
	}
	return map[string]any{string(kind) + "Success": result}
}
