package sim

import (
	"errors"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// lineState is a stream to the model: what appends are judged by.
type lineState struct {
	tail      uint64
	token     string
	exclusive bool
	state     coordinator.State
}

// model says which answers an operation may get in a state, and the state after it. Every operation in a history given
// to it has an outcome: what was in doubt is settled by what the stream turned out to hold.
var model = porcupine.Model{
	Init: func() any { return lineState{state: coordinator.Active} },
	Step: func(state, input, _ any) (bool, any) { return stepLine(state.(lineState), input.(*op)) },
}

func stepLine(s lineState, o *op) (bool, lineState) {
	switch o.kind {
	case appendOp:
		return stepAppend(s, o)
	case tailOp:
		return o.tail.SeqNum == s.tail && s.state == coordinator.Active, s
	case fenceOp:
		return stepFence(s, o)
	case openOp:
		return stepOpen(s, o)
	case configOp:
		s.exclusive = o.config.Fencing == coordinator.Exclusive
	case deleteOp:
		s.state = max(s.state, o.state)
		return true, s
	}
	return s.state == coordinator.Active, s
}

// stepFence installs a token, or finds it installed. Its caller is told the tail at that time, or a later one.
func stepFence(s lineState, o *op) (bool, lineState) {
	before := s.token
	s.token = o.token
	told := !o.returned || o.err != nil || o.fenced.Previous == before && o.fenced.Token == o.token && o.fenced.Tail.SeqNum >= s.tail
	return s.state == coordinator.Active && told && (o.applied || before == o.token), s
}

// stepOpen is the answer to a session that presents a token, or none.
func stepOpen(s lineState, o *op) (bool, lineState) {
	var fence *coordinator.FencingMismatch
	fenced := o.batch.Token != nil && *o.batch.Token != s.token
	switch {
	case errors.Is(o.err, coordinator.ErrStreamNotFound):
		return s.state == coordinator.Deleted, s
	case errors.Is(o.err, coordinator.ErrStreamDeleting):
		return s.state == coordinator.Deleting, s
	case errors.As(o.err, &fence):
		return s.state == coordinator.Active && fenced && fence.Installed == s.token, s
	}
	return s.state == coordinator.Active && !fenced, s
}

// stepAppend follows the order of the answers: state, fencing, match.
func stepAppend(s lineState, o *op) (bool, lineState) {
	var fence *coordinator.FencingMismatch
	var match *coordinator.MatchMismatch
	presented := o.batch.Token
	if presented == nil && s.exclusive {
		presented = new(string)
	}
	active, fenced := s.state == coordinator.Active, presented != nil && *presented != s.token
	matches := o.batch.Match == nil || *o.batch.Match == s.tail
	switch {
	case o.applied:
		if !active || fenced || !matches || s.tail != o.start {
			return false, s
		}
		s.tail += uint64(len(o.batch.Records))
		for i := range o.batch.Records {
			if cmd, _ := segments.ParseCommand(&o.batch.Records[i]); cmd.Kind == segments.FenceCommand {
				s.token = cmd.Token
			}
		}
		return true, s
	case errors.Is(o.err, coordinator.ErrStreamNotFound):
		return s.state == coordinator.Deleted, s
	case errors.Is(o.err, coordinator.ErrStreamDeleting):
		return s.state == coordinator.Deleting, s
	case errors.As(o.err, &fence):
		return active && fenced && fence.Installed == s.token, s
	case errors.As(o.err, &match):
		return active && !fenced && !matches && match.Next == s.tail, s
	}
	return true, s
}

// checkHistory checks that what the clients of each stream were told has an order in which a single log would have told
// it, each answer given between its call and its return.
func (w *world) checkHistory() {
	byStream := map[segments.StreamID][]porcupine.Operation{}
	for _, o := range w.ops {
		if !o.counts() {
			continue
		}
		ret := int64(2*w.step + 2)
		if o.returned && (o.err == nil || o.definite) {
			ret = int64(2*o.ret + 1)
		}
		byStream[o.stream] = append(byStream[o.stream], porcupine.Operation{ClientId: o.id, Input: o, Call: int64(2 * o.call), Return: ret})
	}
	for _, id := range w.truth.order {
		switch porcupine.CheckOperationsTimeout(model, byStream[id], 10*time.Second) {
		case porcupine.Illegal:
			w.truth.fail(w.truth.streams[id], "linearizable", "%d operations have no order that explains their answers", len(byStream[id]))
		case porcupine.Unknown:
			w.truth.fail(w.truth.streams[id], "linearizable", "not decided in time")
		}
	}
}

// counts reports whether the operation had an effect, or an answer that tells something.
func (o *op) counts() bool {
	var fence *coordinator.FencingMismatch
	var match *coordinator.MatchMismatch
	switch {
	case o.kind == deleteOp:
		return o.applied || o.returned && o.err == nil
	case o.applied, o.returned && o.err == nil:
		return true
	case o.kind != appendOp && o.kind != openOp || !o.returned:
		return false
	}
	return errors.Is(o.err, coordinator.ErrStreamNotFound) || errors.Is(o.err, coordinator.ErrStreamDeleting) ||
		errors.As(o.err, &fence) || errors.As(o.err, &match)
}
