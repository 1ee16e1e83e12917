package coordinator

import "github.com/tailrace-streams/tailrace/segments"

// judge runs batches one after another against a head, without touching it, and reduces those it admits to one
// commit: at most one token and one tail precondition against the state before, plus one net effect (protocol 2).
type judge struct {
	base      *Head
	tail      uint64
	token     string
	exclusive bool
	fenced    bool // a fence command was admitted: tokens after it are judged here, not by the store
	commit    Commit
}

// placedCommand is a command record and its place in the batch.
type placedCommand struct {
	offset uint64
	segments.Command
}

// commandsOf lists the command records of a validated batch.
func commandsOf(records []segments.Record) (cmds []placedCommand) {
	for i := range records {
		if c, err := segments.ParseCommand(&records[i]); err == nil && c.Kind != segments.NoCommand {
			cmds = append(cmds, placedCommand{uint64(i), c})
		}
	}
	return cmds
}

func newJudge(h *Head) *judge {
	return &judge{
		base: h, tail: h.Tail, token: h.Token, exclusive: h.Exclusive(),
		commit: Commit{Exclusive: h.Exclusive(), ConfigV: h.ConfigV},
	}
}

// pinned reports whether the commit so far depends on the tail.
func (j *judge) pinned() bool { return j.commit.Match != nil }

// admit adds a batch of n records to the commit, or returns why the running state refuses it: ErrStreamDeleting,
// ErrStreamNotFound, *FencingMismatch, *MatchMismatch or ErrTimestampRequired, in the order of s2-api 14.2.
func (j *judge) admit(b *Batch, n uint64, cmds []placedCommand) error {
	if err := stateError(j.base.State); err != nil {
		return err
	}
	if j.base.Cipher != "" && j.tail+n > maxSealed {
		return ErrCipherExhausted
	}
	presented := b.Token
	if presented == nil && j.exclusive {
		presented = new(string)
	}
	if presented != nil && *presented != j.token {
		return &FencingMismatch{Installed: j.token, Tail: j.base.TailPosition()}
	}
	if b.Match != nil && *b.Match != j.tail {
		return &MatchMismatch{Next: j.tail, Tail: j.base.TailPosition()}
	}
	if j.base.Config.Timestamping == ClientRequire && !timed(b.Records) {
		return ErrTimestampRequired
	}
	if presented != nil && !j.fenced {
		j.commit.Token = presented
	}
	if b.Match != nil && j.commit.Match == nil {
		j.commit.Match = &j.base.Tail
	}
	for _, c := range cmds {
		switch c.Kind {
		case segments.FenceCommand:
			j.token, j.fenced = c.Token, true
			token := c.Token
			j.commit.SetToken = &token
		case segments.TrimCommand:
			j.commit.Trims = append(j.commit.Trims, CommitTrim{Offset: j.tail - j.base.Tail + c.offset, To: c.Trim})
		}
	}
	j.tail += n
	return nil
}

// maxSealed bounds the records of a stream sealed with AES-GCM (s2-api 19): nonces are drawn at random.
const maxSealed = 1 << 32

// sealer makes the sealer of a stream for a client's key: nil for a plain stream, *KeyRequired if the key is missing
// or is none.
func sealer(h *Head, key []byte) (*segments.Sealer, error) {
	if h.Cipher == "" {
		return nil, nil
	}
	s, err := segments.NewSealer(key, h.Stream)
	if err != nil || h.Cipher != segments.CipherAES256GCM {
		return nil, &KeyRequired{Cipher: h.Cipher}
	}
	return s, nil
}

// stateError is the error of an operation on a stream in the given state.
func stateError(s State) error {
	switch s {
	case Active:
		return nil
	case Deleting:
		return ErrStreamDeleting
	}
	return ErrStreamNotFound
}

func timed(records []segments.Record) bool {
	for i := range records {
		if !records[i].HasTimestamp {
			return false
		}
	}
	return true
}

// stamp gives records their raw timestamps by the stream's config (s2-api 14.3), in a slice of its own, and returns
// the largest. Decreasing times are left as they are: readers see the running maximum, wherever the commit lands.
func stamp(cfg *StreamConfig, records []segments.Record, now uint64) (stamped []segments.Record, largest uint64) {
	stamped = make([]segments.Record, len(records))
	for i := range records {
		r := &stamped[i]
		*r = records[i]
		if !r.HasTimestamp || cfg.Timestamping == ArrivalTime || (r.Timestamp > now && !cfg.Uncapped) {
			r.Timestamp = now
		}
		r.HasTimestamp = true
		largest = max(largest, r.Timestamp)
	}
	return stamped, largest
}
