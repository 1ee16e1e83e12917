package recall

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func set(value string) func(string, bool) (string, bool) {
	return func(string, bool) (string, bool) { return value, true }
}

func length(v string) int64 { return int64(len(v)) }

func TestGroupsAreApart(t *testing.T) {
	t.Parallel()
	c := New[string, string](1<<20, 1<<19, length)
	c.Change("a", "k", set("one"))
	c.Change("b", "k", set("two"))
	if v, ok := c.Get("a", "k"); !ok || v != "one" {
		t.Errorf("a has %q, %v", v, ok)
	}
	c.Drop("a")
	if v, ok := c.Get("a", "k"); ok {
		t.Errorf("a has %q after it was dropped", v)
	}
	if v, ok := c.Get("b", "k"); !ok || v != "two" {
		t.Errorf("b has %q, %v", v, ok)
	}
	c.Update("a", "k", func(string) (string, bool) { t.Error("an update of nothing"); return "", true })
	c.Update("b", "k", func(string) (string, bool) { return "", false })
	if got := c.Bytes(); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
}

// A group that asks for much loses its own, not another's.
func TestOneGroupDoesNotPushOutAnother(t *testing.T) {
	t.Parallel()
	const size = overhead + 1
	c := New[string, int](10*size, 5*size, length)
	c.Change("small", 0, set("x"))
	for i := range 100 {
		c.Change("large", i, set("x"))
	}
	if _, ok := c.Get("small", 0); !ok {
		t.Error("a neighbour pushed it out")
	}
	for i := range 100 {
		if _, ok := c.Get("large", i); ok != (i >= 95) {
			t.Errorf("value %d: %v", i, ok)
		}
	}
	if c.Change("large", 7, set(string(make([]byte, 5*size)))); c.Bytes() > 10*size {
		t.Errorf("%d bytes", c.Bytes())
	}
	nothing := New[string, int](0, 0, length)
	if nothing.Change("a", 1, set("x")); nothing.Bytes() != 0 {
		t.Error("a cache of no bytes has some")
	}
}

// Whatever is done, the cache is within its bounds, and what it gives is what was put last.
func TestCacheAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(-1, 8*overhead).Draw(t, "limit")
		share := rapid.Int64Range(-1, 8*overhead).Draw(t, "share")
		c := New[int, int](limit, share, length)
		model := map[[2]int]string{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			g, k := rapid.IntRange(0, 2).Draw(t, "group"), rapid.IntRange(0, 5).Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				v := fmt.Sprint(rapid.IntRange(0, 1<<20).Draw(t, "value"))
				c.Change(g, k, set(v))
				model[[2]int{g, k}] = v
			case 2:
				c.Update(g, k, func(old string) (string, bool) { return old + "!", true })
				if v, ok := model[[2]int{g, k}]; ok {
					model[[2]int{g, k}] = v + "!"
				}
			case 3:
				c.Drop(g)
				for key := range model {
					if key[0] == g {
						delete(model, key)
					}
				}
			default:
				v, ok := c.Get(g, k)
				if want := model[[2]int{g, k}]; ok && v != want {
					t.Fatalf("got %q, want %q", v, want)
				}
				if !ok {
					delete(model, [2]int{g, k}) // it was pushed out
				}
			}
			if c.Bytes() > max(limit, 0) {
				t.Fatalf("%d bytes of %d", c.Bytes(), limit)
			}
		}
	})
}
