package coordinator

import (
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
)

// TestPresentersForget: what is listed of sessions goes with them, so an idle stream costs nothing.
func TestPresentersForget(t *testing.T) {
	t.Parallel()
	p := newPresenters(nil)
	token := "t"
	ref := StreamRef{segments.NewBasinID(), segments.NewStreamID()}
	var all []*Session
	for range 5 {
		s := &Session{c: &Coordinator{presenters: p}, ref: ref, o: SessionOptions{Token: &token}, over: make(chan struct{})}
		p.add(s)
		all = append(all, s)
	}
	if err := p.open(all[0], &Head{V: 1, Stream: ref.Stream, Token: "t"}); err != nil {
		t.Fatal(err)
	}
	p.look(&Head{V: 2, Stream: segments.NewStreamID(), Token: "u"})
	p.look(&Head{V: 1, Stream: ref.Stream, Token: "u"}) // no newer than what it was opened on
	if all[0].Err() != nil {
		t.Error("superseded by another stream's head, or by an old one")
	}
	p.look(&Head{V: 3, Stream: ref.Stream, Token: "u"})
	p.look(&Head{V: 4, Stream: ref.Stream, Token: "v"})
	if got := all[0].superseded(); got == nil || got.Installed != "u" {
		t.Errorf("superseded by %v", got)
	}
	if all[1].Err() != nil {
		t.Error("superseded before it was open")
	}
	if err := p.open(all[1], &Head{V: 2, Stream: ref.Stream, Token: "t"}); err == nil {
		t.Error("opened on a head that another has outdated meanwhile")
	}
	for _, s := range all {
		s.Close()
		s.Close()
	}
	if p.n.Load() != 0 || len(p.streams) != 0 {
		t.Errorf("%d sessions of %d streams are left", p.n.Load(), len(p.streams))
	}
}
