package objectstest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

func (s suite) deletes() {
	for _, key := range []string{"d/a", "d/b", "d/sub/c", "d2/a", "d-a"} {
		s.put(key, []byte(key))
	}
	for _, keys := range [][]string{nil, {}, {"d/none", "none/at/all"}, {"d/a", "d/none", "d/sub/c"}, {"d/a"}, {"d/b", "d/b"}} {
		if failed := s.objects.Delete(s.Context(), keys); failed != nil {
			s.Errorf("Delete(%q) = %v", keys, failed)
		}
	}
	for _, key := range []string{"d/a", "d/b", "d/sub/c"} {
		s.wantNone(key)
	}
	s.wantKeys("", "d-a", "d2/a")
	s.wantKeys("d/")
	s.put("d/sub/new", []byte("after"))
	s.want("d/sub/new", []byte("after"))
	s.wantKeys("d/", "d/sub/new")
}

// atOnce has many callers put, read, list and delete below folders they share, which appear and vanish meanwhile.
func (s suite) atOnce() {
	const workers, rounds = 8, 12
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for r := range rounds {
				s.oneRound(fmt.Sprintf("at/%d/w%d-r%02d", r%3, w, r), r%4 == 0)
			}
		})
	}
	all.Wait()
	var want []string
	for w := range workers {
		for r := range rounds {
			if r%4 == 0 {
				want = append(want, fmt.Sprintf("at/%d/w%d-r%02d", r%3, w, r))
			}
		}
	}
	slices.Sort(want)
	s.wantKeys("at/", want...)
}

func (s suite) oneRound(key string, keep bool) {
	ctx := s.Context()
	data := bytes.Repeat([]byte(key), 100)
	if err := s.objects.Put(ctx, key, data); err != nil {
		s.Errorf("Put(%q) = %v", key, err)
	}
	s.want(key, data)
	if infos, err := s.objects.List(ctx, key[:len("at/0/")], "", 1000); err != nil {
		s.Errorf("List = %v", err)
	} else if !slices.Contains(keysOf(infos), key) {
		s.Errorf("List misses %q, which was stored", key)
	}
	if keep {
		return
	}
	if failed := s.objects.Delete(ctx, []string{key}); failed != nil {
		s.Errorf("Delete(%q) = %v", key, failed)
	}
	s.wantNone(key)
}

// sameKey has many callers put the same bytes under one key, as a retry does while the first try still runs.
func (s suite) sameKey() {
	data := bytes.Repeat([]byte("same"), 10000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				if err := s.objects.Put(s.Context(), "same/k", data); err != nil {
					s.Errorf("Put = %v", err)
				}
				s.want("same/k", data)
			}
		})
	}
	all.Wait()
	s.wantKeys("", "same/k")
}
