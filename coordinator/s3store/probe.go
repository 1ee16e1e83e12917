package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

const (
	// probeRaces is how often racers are sent off. A store that checks and writes in two steps mostly lets two of them win at
	// the first.
	probeRaces  = 4
	probeRacers = 6
	// probeLeft is how old what an interrupted probe has left must be to be removed by a later one.
	probeLeft = time.Hour
	// probePatience bounds how long the store may postpone one request.
	probePatience = 5 * time.Second
)

// Probe checks that the store does what heads rely on, with some eighty requests, below probe/, where it leaves nothing. An
// error names the check. One that matches s3objects.ErrUnavailable says that the probe should be repeated later; one that
// matches s3objects.ErrMisbehaves that heads would not be safe on this store.
func (s *Store) Probe(ctx context.Context) error {
	p := &probe{objects: s.objects, folder: probeFolder + rand.Text() + "/"}
	defer func() { // what is left, a later probe removes
		_ = s.objects.Delete(context.WithoutCancel(ctx), p.keys)
	}()
	for _, check := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"a second creator", p.secondCreator},
		{"a stale ETag", p.staleTag},
		{"If-Match on a missing key", p.missingKey},
		{"reading what was just written", p.readAfterWrite},
		{"a won create whose reply is lost", p.lostReply},
		{"racing creators", p.racingCreators},
		{"racing writers", p.racingWriters},
		{"the order of a listing", p.order},
		{"a listing right after a write", p.listAfterWrite},
	} {
		if err := check.run(ctx); err != nil {
			return fmt.Errorf("probe conditional writes: %s: %w", check.name, err)
		}
	}
	p.sweep(ctx)
	return nil
}

type probe struct {
	objects *s3objects.Store
	folder  string
	keys    []string
}

// misbehaves is the error of a check that the store has failed.
func misbehaves(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, s3objects.ErrMisbehaves)...)
}

// key returns a key that was never used.
func (p *probe) key(name string) string {
	p.keys = append(p.keys, p.folder+name)
	return p.folder + name
}

// put makes a conditional write, and sends it again while the store puts it off. It reports false if the condition failed.
func (p *probe) put(ctx context.Context, key, content string, match s3objects.Tag) (s3objects.Tag, bool, error) {
	for began := time.Now(); ; {
		tag, err := p.objects.PutIf(ctx, key, []byte(content), match)
		switch {
		case err == nil && tag == "":
			return "", false, misbehaves("the answer to a write has no strong ETag")
		case err == nil:
			return tag, true, nil
		case judge(err) == lost:
			return "", false, nil
		case judge(err) != postponed || time.Since(began) > probePatience || !pause(ctx, jitter(2*postponeFirst)):
			return "", false, err
		}
	}
}

// must is put of a write whose condition holds.
func (p *probe) must(ctx context.Context, key, content string, match s3objects.Tag) (s3objects.Tag, error) {
	tag, ok, err := p.put(ctx, key, content, match)
	if err == nil && !ok {
		err = misbehaves("a write was refused although its condition holds")
	}
	return tag, err
}

// mustNot is put of a write whose condition does not hold. why says which.
func (p *probe) mustNot(ctx context.Context, key, content string, match s3objects.Tag, why string) error {
	_, ok, err := p.put(ctx, key, content, match)
	if err == nil && ok {
		err = misbehaves("%s", why)
	}
	return err
}

// reads checks what a key holds.
func (p *probe) reads(ctx context.Context, key, content string, tag s3objects.Tag) error {
	data, got, err := p.objects.GetTagged(ctx, key)
	switch {
	case err != nil:
		return err
	case string(data) != content:
		return misbehaves("a read shows something else than the last write")
	case tag != "" && got != tag:
		return misbehaves("a read has another ETag than the write had")
	}
	return nil
}

func (p *probe) secondCreator(ctx context.Context) error {
	key := p.key("second")
	tag, err := p.must(ctx, key, "first", "")
	if err == nil {
		err = p.mustNot(ctx, key, "second", "", "If-None-Match is ignored: what was there has been written over")
	}
	if err == nil {
		err = p.reads(ctx, key, "first", tag)
	}
	return err
}

func (p *probe) staleTag(ctx context.Context) error {
	key := p.key("stale")
	first, err := p.must(ctx, key, "first", "")
	if err != nil {
		return err
	}
	second, err := p.must(ctx, key, "second", first)
	switch {
	case err != nil:
		return err
	case first == second:
		return misbehaves("two states have the same ETag")
	}
	if err := p.mustNot(ctx, key, "third", first, "If-Match is ignored: a write for an earlier state has replaced a later one"); err != nil {
		return err
	}
	return p.reads(ctx, key, "second", second)
}

func (p *probe) missingKey(ctx context.Context) error {
	tag, err := p.must(ctx, p.key("there"), "there", "")
	if err != nil {
		return err
	}
	return p.mustNot(ctx, p.key("missing"), "there", tag, "a write for the state of an object that is not there has made it")
}

func (p *probe) readAfterWrite(ctx context.Context) error {
	key, tag := p.key("read"), s3objects.Tag("")
	for n := range 5 {
		content := fmt.Sprint("write ", n)
		var err error
		if tag, err = p.must(ctx, key, content, tag); err != nil {
			return err
		}
		if err := p.reads(ctx, key, content, tag); err != nil {
			return err
		}
	}
	return nil
}

// lostReply hangs up when a create is on its way, and sends it again. Whichever the store takes, it is there once, and the next
// write builds on it.
func (p *probe) lostReply(ctx context.Context) error {
	for n := range 2 {
		key := p.key(fmt.Sprint("lost-", n))
		sent, hangUp := context.WithCancel(ctx)
		_, _ = p.objects.PutIf(httptrace.WithClientTrace(sent, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { hangUp() },
		}), key, []byte("ours"), "")
		hangUp()
		if _, _, err := p.put(ctx, key, "ours", ""); err != nil {
			return err
		}
		data, tag, err := p.objects.GetTagged(ctx, key)
		switch {
		case err != nil:
			return err
		case string(data) != "ours":
			return misbehaves("what was created is not what was sent")
		}
		if tag, err = p.must(ctx, key, "next", tag); err != nil {
			return err
		}
		if err := p.mustNot(ctx, key, "ours", "", "If-None-Match is ignored: a repeated create has written over what followed"); err != nil {
			return err
		}
		if err := p.reads(ctx, key, "next", tag); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) racingCreators(ctx context.Context) error {
	for n := range probeRaces {
		if err := p.race(ctx, p.key(fmt.Sprint("create-", n)), ""); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) racingWriters(ctx context.Context) error {
	for n := range probeRaces {
		key := p.key(fmt.Sprint("write-", n))
		tag, err := p.must(ctx, key, "before", "")
		if err == nil {
			err = p.race(ctx, key, tag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// race sends writes off together that are all for one state. One must win, and be there.
func (p *probe) race(ctx context.Context, key string, match s3objects.Tag) error {
	won, errs := make([]bool, probeRacers), make([]error, probeRacers)
	tags := make([]s3objects.Tag, probeRacers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range probeRacers {
		all.Go(func() {
			<-start
			tags[i], won[i], errs[i] = p.put(ctx, key, fmt.Sprint("racer ", i), match)
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	winner := slices.Index(won, true)
	switch {
	case winner < 0:
		return misbehaves("of several writes for one state none has won")
	case slices.Contains(won[winner+1:], true):
		return misbehaves("of several writes for one state two have won")
	}
	return p.reads(ctx, key, fmt.Sprint("racer ", winner), tags[winner])
}

// order lists keys as those of rows are: names of full length, folders beside names, and everything that a name can end in.
func (p *probe) order(ctx context.Context) error {
	var want []string
	for _, sort := range []string{
		"\x00", "a", "a\x00", "b", string(bytes.Repeat([]byte("k"), folderChars*5/8)), string(bytes.Repeat([]byte("k"), folderChars*5/8+1)),
		"l", string(bytes.Repeat([]byte("l"), plainBytes+1)), "\xff",
	} {
		path := "order/" + sortPath(sort)
		if _, err := p.must(ctx, p.key(path), "x", ""); err != nil {
			return err
		}
		want = append(want, p.folder+path)
	}
	for from := range want {
		after := ""
		if from > 0 {
			after = want[from-1]
		}
		infos, err := p.objects.List(ctx, p.folder+"order/", after, len(want)+1)
		if err != nil {
			return err
		}
		var got []string
		for _, info := range infos {
			got = append(got, info.Key)
		}
		if !slices.Equal(got, want[from:]) {
			return misbehaves("%d names are listed of %d, or in another order than bytewise", len(got), len(want)-from)
		}
	}
	return nil
}

// listAfterWrite: a listing shows the state that was just written, by its size, which tells rows from tombstones.
func (p *probe) listAfterWrite(ctx context.Context) error {
	key, tag := p.key("listed/a"), s3objects.Tag("")
	for n := range 3 {
		content := string(bytes.Repeat([]byte("x"), 1+100*n))
		var err error
		if tag, err = p.must(ctx, key, content, tag); err != nil {
			return err
		}
		infos, err := p.objects.List(ctx, p.folder+"listed/", "", 2)
		switch {
		case err != nil:
			return err
		case len(infos) != 1 || infos[0].Size != int64(len(content)):
			return misbehaves("a listing does not show what was just written")
		}
	}
	return nil
}

// sweep removes what probes that were cut short have left.
func (p *probe) sweep(ctx context.Context) {
	infos, _ := p.objects.List(ctx, probeFolder, "", mostNames)
	now := time.Now().Add(p.objects.Clock().Offset)
	var old []string
	for _, info := range infos {
		if now.Sub(info.Modified) > probeLeft {
			old = append(old, info.Key)
		}
	}
	_ = p.objects.Delete(ctx, old)
}
