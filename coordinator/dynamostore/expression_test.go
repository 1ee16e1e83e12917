package dynamostore

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// stated is a step as one update, in the case that k is in; ok is false for the one kind that none can state.
func stated(s storetest.Step, k known) (u *update, ok bool) {
	switch {
	case s.Commit != nil:
		return commitUpdate(s.Commit, k), true
	case s.Splice != nil && lengthens(s.Splice):
		return nil, false
	case s.Splice != nil:
		return spliceUpdate(s.Splice), true
	}
	return changeUpdate(s.Change, k), true
}

// Every expression, evaluated by the emulator on a random head, is the pure function: it applies exactly where the
// function does, and gives the same head. Stated in a case that the head is not in, it may fail where the function does
// not, but it never gives another head.
func TestExpressionsAreThePureFunctions(t *testing.T) {
	t.Parallel()
	s := newStoreAt(t, emulator(t))
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		mustCreate(t, ctx, s, h)
		for range 4 {
			step := g.Step(&h)
			k, exact := knownOf(&h), true
			if rapid.IntRange(0, 2).Draw(t, "wrong case") == 0 {
				k, exact = drawKnown(t, &h), false
			}
			u, ok := stated(step, k)
			if !ok {
				continue
			}
			want, wantErr := step.Apply(h)
			got, err := s.update(ctx, h.Stream, u)
			var failed *errCondition
			switch {
			case err == nil && (wantErr != nil || !storetest.Equal(got, want)):
				t.Fatalf("%+v\n%s\nIF %s\ngave\n%+v, want %v\n%+v", step, u.expression(), u.conditionExpression(), got, wantErr, want)
			case err != nil && !errors.As(err, &failed):
				t.Fatalf("%+v\n%s\nIF %s\n%v", step, u.expression(), u.conditionExpression(), err)
			case err != nil && wantErr == nil && exact:
				t.Fatalf("%+v\n%s\nIF %s\nrefused\n%+v", step, u.expression(), u.conditionExpression(), h)
			case err == nil:
				h = got
			}
		}
		if got, err := s.Load(ctx, h.Stream); err != nil || !storetest.Equal(got, h) {
			t.Fatalf("loaded %v\n%+v, want\n%+v", err, got, h)
		}
	})
}

func drawKnown(t *rapid.T, h *coordinator.Head) known {
	number := func(label string) uint64 {
		return rapid.OneOf(rapid.Uint64Range(0, h.Tail+40), rapid.Just[uint64](1<<62)).Draw(t, label)
	}
	return known{
		state: coordinator.State(rapid.IntRange(1, 3).Draw(t, "known state")),
		tail:  number("known tail"), trim: number("known trim"), floor: number("known floor"), horizon: number("known horizon"),
	}
}

func TestTrimFormAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var trims []coordinator.CommitTrim
		for range rapid.IntRange(1, 4).Draw(t, "commands") {
			trims = append(trims, coordinator.CommitTrim{
				Offset: rapid.Uint64Range(0, 9).Draw(t, "offset"),
				To:     rapid.OneOf(rapid.Uint64Range(0, 60), rapid.Just[uint64](math.MaxUint64)).Draw(t, "to"),
			})
		}
		asked := func(tail uint64) (to uint64) {
			for _, c := range trims {
				to = max(to, min(c.To, tail+c.Offset+1))
			}
			return to
		}
		tail := rapid.Uint64Range(0, 60).Draw(t, "tail")
		f := trimFormAt(trims, tail)
		if tail < f.low || tail > f.high {
			t.Fatalf("%+v does not cover the tail %d", f, tail)
		}
		value := func(tail uint64) uint64 {
			if f.fromTail {
				return tail + f.value
			}
			return f.value
		}
		for at := f.low; at <= min(f.high, 80); at++ {
			if value(at) != asked(at) {
				t.Fatalf("%+v gives %d at tail %d, want %d", f, value(at), at, asked(at))
			}
		}
		// For one command the range is the widest: appends that move the tail must not cost attempts.
		if len(trims) > 1 {
			return
		}
		if f.low > 0 && value(f.low-1) == asked(f.low-1) ||
			f.high < 80 && value(f.high+1) == asked(f.high+1) {
			t.Fatalf("%+v of %+v could be wider", f, trims)
		}
	})
}

// The limits of the service on one expression.
const (
	maxExpression = 4 << 10
	maxOperators  = 300
)

// maxCommit is the most entries that a commit of the coordinator has.
const maxCommit = 64

// The largest splices and commits are within limits.
func TestLargestExpressions(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	for i := range Room.MaxSplice {
		id := segments.EntryID{Object: segments.NewObjectID(segments.Label(i + 1)), Attempt: math.MaxUint16}
		h.Log = append(h.Log, segments.Entry{ID: id, N: 1, Data: []byte("x")})
	}
	match, token := uint64(1), "t"
	commit := &coordinator.Commit{
		Entries: h.Log[:maxCommit], Match: &match, Token: &token, SetToken: &token, TokenID: coordinator.NewOpID(),
		Trims: []coordinator.CommitTrim{{To: 9}, {Offset: 3, To: 99}}, Lease: &coordinator.Lease{Node: "n", Address: "a"},
		MaxEntries: Room.MaxEntries, MaxInline: math.MaxUint64,
	}
	for name, u := range map[string]*update{
		"commit":   commitUpdate(commit, unknown),
		"move":     spliceUpdate(&coordinator.Splice{Move: &coordinator.Move{Old: h.Log, Pages: []coordinator.Root{{}}}}),
		"retire":   spliceUpdate(&coordinator.Splice{Retire: &coordinator.Retire{Old: h.Log}}),
		"exchange": spliceUpdate(&coordinator.Splice{Exchange: &coordinator.Exchange{Index: Room.MaxEntries, Old: h.Log, New: h.Log[:1]}}),
		"overwrite": spliceUpdate(&coordinator.Splice{Exchange: &coordinator.Exchange{
			Index: Room.MaxEntries, Old: h.Log, New: h.Log,
		}}),
	} {
		set, condition := u.expression(), u.conditionExpression()
		inSet := operatorsOf(set) - strings.Count(set, " = ") // assignments do not count
		inCondition := operatorsOf(condition)
		t.Logf("%s: %d bytes with %d operators, IF %d with %d", name, len(set), inSet, len(condition), inCondition)
		if max(len(set), len(condition)) > maxExpression || max(inSet, inCondition) > maxOperators {
			t.Errorf("%s is beyond the limits", name)
		}
	}
}

// operatorsOf counts operators and functions, every one that could be counted.
func operatorsOf(expression string) (n int) {
	for _, word := range strings.FieldsFunc(expression, func(r rune) bool { return r == ' ' || r == '(' || r == ')' || r == ',' }) {
		switch word {
		case "=", "<", "<=", ">", ">=", "+", "-", "AND", "OR", "NOT", "contains", "size", "attribute_not_exists", "list_append":
			n++
		}
	}
	return n
}

func TestExpressionText(t *testing.T) {
	t.Parallel()
	u := newUpdate()
	u.removeRun(1, 4)
	u.adds, u.takes = []string{"#a :a"}, []string{"#b :b"}
	want := "SET #v = #v + :0 REMOVE #log[3], #log[2], #log[1] ADD #a :a DELETE #b :b"
	if got := u.expression(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(u.conditionExpression(), u.names), "#f = :1map[#f:f #log:log #v:v]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
