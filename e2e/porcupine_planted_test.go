package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/zeebo/xxh3"
)

// sequence makes a history of operations one after another, each by a client of its own.
type sequence struct{ events []logEvent }

func (s *sequence) do(in opInput, out opOutput) *sequence {
	op := len(s.events)
	s.events = append(s.events, logEvent{client: op, op: op, input: in}, logEvent{client: op, op: op, end: true, input: in, output: out})
	return s
}

// during makes an operation that is under way while others run, from here to the returned function.
func (s *sequence) during(in opInput, out opOutput) (end func()) {
	op := len(s.events)
	s.events = append(s.events, logEvent{client: op, op: op, input: in})
	return func() {
		s.events = append(s.events, logEvent{client: op, op: op, end: true, input: in, output: out})
	}
}

func appendOf(texts ...string) opInput {
	in := opInput{kind: opAppend}
	for _, b := range texts {
		in.hashes = append(in.hashes, xxh3.HashString(b))
	}
	return in
}

func (in opInput) matching(n uint64) opInput     { in.match = &n; return in }
func (in opInput) presenting(tok string) opInput { in.token = &tok; return in }

func fenceOf(tok string) opInput {
	in := appendOf(tok)
	in.fence = &tok
	return in
}

func ok(tail uint64) opOutput { return opOutput{tail: tail} }

func refusedAt(next uint64) opOutput { return opOutput{result: definite, next: &next} }
func refusedFor(tok string) opOutput { return opOutput{result: definite, installed: &tok} }
func readOf(texts ...string) opOutput {
	return opOutput{tail: uint64(len(texts)), content: chainOf(texts...)}
}
func (s *sequence) tail(n uint64)        { s.do(opInput{kind: opCheckTail}, ok(n)) }
func (s *sequence) read(texts ...string) { s.do(opInput{kind: opRead}, readOf(texts...)) }

var (
	failed    = opOutput{result: definite}
	uncertain = opOutput{result: indefinite}
)

// The checker tells good histories from bad ones: each kind of mistake that a store could make, planted.
func TestCheckerFindsPlantedMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want porcupine.CheckResult
		plan func(s *sequence)
	}{
		"all is well": {porcupine.Ok, func(s *sequence) {
			s.tail(0)
			s.read()
			s.do(appendOf("a", "b"), ok(2)).do(appendOf("x").matching(0), refusedAt(2)).do(appendOf("c").matching(2), ok(3))
			s.do(fenceOf("t").matching(3), ok(4)).do(appendOf("x").presenting("u"), refusedFor("t")).do(appendOf("d").presenting("t"), ok(5))
			s.do(appendOf("e"), ok(6)) // cooperative: no token is no obstacle
			s.do(appendOf("x"), failed)
			s.tail(6)
			s.read("a", "b", "c", "t", "d", "e")
		}},
		"an acknowledged append is lost": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b"), ok(2))
			s.read("a")
		}},
		"an append is lost though the tail counts it": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b"), ok(2))
			s.do(opInput{kind: opRead}, opOutput{tail: 2, content: chainOf("a", "a")})
		}},
		"an append is there twice": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1))
			s.read("a", "a")
		}},
		"records are swapped": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a", "b"), ok(2))
			s.read("b", "a")
		}},
		"half a batch": {porcupine.Illegal, func(s *sequence) {
			end := s.during(appendOf("a", "b"), ok(2))
			s.read("a")
			end()
		}},
		"half a batch in doubt": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a", "b"), uncertain)
			s.tail(1)
		}},
		"the tail is stale": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1))
			s.tail(0)
		}},
		"the tail goes back": {porcupine.Illegal, func(s *sequence) {
			end := s.during(appendOf("a"), ok(1))
			s.tail(1)
			s.tail(0)
			end()
		}},
		"two appends get one place": {porcupine.Illegal, func(s *sequence) {
			end := s.during(appendOf("a"), ok(1))
			s.do(appendOf("b"), ok(1))
			end()
		}},
		"a definite failure was applied": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), failed)
			s.read("a")
		}},
		"a definite failure is applied later": {porcupine.Illegal, func(s *sequence) {
			end := s.during(appendOf("a"), failed)
			s.tail(0)
			end()
			s.tail(1)
		}},
		"an indefinite failure was applied": {porcupine.Ok, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.read("a")
		}},
		"an indefinite failure is applied later": {porcupine.Ok, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.tail(0)
			s.read("a")
		}},
		"an indefinite failure is never applied": {porcupine.Ok, func(s *sequence) {
			s.do(appendOf("a"), uncertain).do(appendOf("b").matching(0), ok(1))
			s.read("b")
		}},
		"an indefinite failure is applied twice": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.read("a")
			s.read("a", "a")
		}},
		"an indefinite failure is taken back": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.tail(1)
			s.tail(0)
		}},
		"an indefinite failure is applied against its condition": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b").matching(0), uncertain)
			s.read("a", "b")
		}},
		"a missed match is granted": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b").matching(0), ok(2))
		}},
		"two equal matches are granted": {porcupine.Illegal, func(s *sequence) {
			end := s.during(appendOf("a").matching(0), ok(1))
			s.do(appendOf("b").matching(0), ok(2))
			end()
		}},
		"a match is refused that holds": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b").matching(1), refusedAt(1))
		}},
		"a refusal tells a number that never was": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a", "b"), ok(2)).do(appendOf("c").matching(0), refusedAt(1))
		}},
		"a refusal tells the future": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("x").matching(5), refusedAt(1)).do(appendOf("a"), ok(1))
		}},
		"an old token is accepted": {porcupine.Illegal, func(s *sequence) {
			s.do(fenceOf("t"), ok(1)).do(fenceOf("u"), ok(2)).do(appendOf("a").presenting("t"), ok(3))
		}},
		"a token is refused that is in force": {porcupine.Illegal, func(s *sequence) {
			s.do(fenceOf("t"), ok(1)).do(appendOf("a").presenting("t"), refusedFor("t"))
		}},
		"a refusal tells an old token": {porcupine.Illegal, func(s *sequence) {
			s.do(fenceOf("t"), ok(1)).do(fenceOf("u"), ok(2)).do(appendOf("a").presenting("x"), refusedFor("t"))
		}},
		"a refused match hides a fence": {porcupine.Illegal, func(s *sequence) {
			s.do(fenceOf("t"), ok(1)).do(appendOf("a").presenting("x").matching(9), refusedAt(1))
		}},
		"a fence is there and not in force": {porcupine.Illegal, func(s *sequence) {
			s.do(fenceOf("t"), ok(1)).do(appendOf("a").presenting(""), ok(2))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sequence{}
			c.plan(s)
			if got := check(s.events, time.Minute); got != c.want {
				t.Errorf("the checker says %s, want %s", got, c.want)
			}
		})
	}
}

// The hashes and lines are those of the public checker (sdk-suites 5).
func TestHistoriesArePublic(t *testing.T) {
	t.Parallel()
	if h := xxh3.HashString("foo"); h != 0xab6e5f64077e7d8a {
		t.Errorf("hash of foo %x", h)
	}
	for want, texts := range map[uint64][]string{
		0x4d2b003ee417c3a5: {"foo"}, 0x132e5d5dd7936edd: {"foo", "bar"}, 0x732ee99abc5002ff: {"foo", "bar", "baz"},
	} {
		if got := chainOf(texts...); got != want {
			t.Errorf("chain of %q is %x, want %x", texts, got, want)
		}
	}
	s := &sequence{}
	s.do(appendOf("foo").matching(0).presenting(""), uncertain).do(fenceOf("t"), ok(1)).do(appendOf("bar"), failed)
	s.tail(1)
	s.read("t")
	s.do(opInput{kind: opRead}, uncertain).do(opInput{kind: opCheckTail}, failed)
	var b strings.Builder
	if err := writeHistory(&b, s.events); err != nil {
		t.Fatal(err)
	}
	const want = `{"event":{"Start":{"Append":{"num_records":1,"record_hashes":[12352915711150947722],"set_fencing_token":null,"fencing_token":"","match_seq_num":0}}},"client_id":0,"op_id":0}
{"event":{"Start":{"Append":{"num_records":1,"record_hashes":[T],"set_fencing_token":"t","fencing_token":null,"match_seq_num":null}}},"client_id":2,"op_id":2}
{"event":{"Finish":{"AppendSuccess":{"tail":1}}},"client_id":2,"op_id":2}
{"event":{"Start":{"Append":{"num_records":1,"record_hashes":[BAR],"set_fencing_token":null,"fencing_token":null,"match_seq_num":null}}},"client_id":4,"op_id":4}
{"event":{"Finish":"AppendDefiniteFailure"},"client_id":4,"op_id":4}
{"event":{"Start":"CheckTail"},"client_id":6,"op_id":6}
{"event":{"Finish":{"CheckTailSuccess":{"tail":1}}},"client_id":6,"op_id":6}
{"event":{"Start":"Read"},"client_id":8,"op_id":8}
{"event":{"Finish":{"ReadSuccess":{"stream_hash":CHAIN,"tail":1}}},"client_id":8,"op_id":8}
{"event":{"Start":"Read"},"client_id":10,"op_id":10}
{"event":{"Finish":"ReadFailure"},"client_id":10,"op_id":10}
{"event":{"Start":"CheckTail"},"client_id":12,"op_id":12}
{"event":{"Finish":"CheckTailFailure"},"client_id":12,"op_id":12}
{"event":{"Finish":"AppendIndefiniteFailure"},"client_id":0,"op_id":0}
`
	replace := strings.NewReplacer("[T]", hashList("t"), "[BAR]", hashList("bar"), "CHAIN", decimal(chainOf("t")))
	if got := b.String(); got != replace.Replace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, replace.Replace(want))
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func hashList(text string) string { return "[" + decimal(xxh3.HashString(text)) + "]" }

// What the last read settles is no more than it implies: mistakes about appends in doubt are still found.
func TestSettlingHidesNoMistake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want porcupine.CheckResult
		plan func(s *sequence)
		last []string
	}{
		"applied": {porcupine.Ok, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.tail(0)
			s.tail(1)
		}, []string{"a"}},
		"never applied": {porcupine.Ok, func(s *sequence) {
			s.do(appendOf("a"), uncertain).do(appendOf("b"), ok(1))
		}, []string{"b"}},
		"seen and gone": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.tail(1)
		}, nil},
		"seen elsewhere": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), uncertain)
			s.read("a")
			s.do(appendOf("b"), ok(2))
		}, []string{"b", "a"}},
		"twice": {porcupine.Illegal, func(s *sequence) { s.do(appendOf("a"), uncertain) }, []string{"a", "a"}},
		"half":  {porcupine.Illegal, func(s *sequence) { s.do(appendOf("a", "b"), uncertain) }, []string{"a"}},
		"against its condition": {porcupine.Illegal, func(s *sequence) {
			s.do(appendOf("a"), ok(1)).do(appendOf("b").matching(0), uncertain)
		}, []string{"a", "b"}},
		"before it began": {porcupine.Illegal, func(s *sequence) {
			s.tail(1)
			s.do(appendOf("a"), uncertain)
		}, []string{"a"}},
		"a record of nobody": {porcupine.Illegal, func(s *sequence) { s.do(appendOf("a"), uncertain) }, []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sequence{}
			c.plan(s)
			s.read(c.last...)
			var content []uint64
			for _, text := range c.last {
				content = append(content, xxh3.HashString(text))
			}
			if got := check(settle(s.events, content), time.Minute); got != c.want {
				t.Errorf("the checker says %s, want %s", got, c.want)
			}
			if got := check(s.events, time.Minute); got != c.want {
				t.Errorf("without settling the checker says %s, want %s", got, c.want)
			}
		})
	}
}
