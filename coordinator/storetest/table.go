package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// RunTable runs the conformance suite of coordinator.Table. open returns a table that nothing else writes to and
// cleans up after itself; it is called once for each of the suite's tests.
func RunTable(t *testing.T, open func(t *testing.T) coordinator.Table) {
	for name, test := range map[string]func(*testing.T, coordinator.Table){
		"answers as a map":                 tableModel,
		"parts are apart":                  tableParts,
		"listing in pages":                 tablePages,
		"the largest and too large":        tableLimits,
		"values are the caller's":          tableOwnership,
		"an ended context changes nothing": tableEndedContext,
		"racing creates":                   tableRacingCreates,
		"racing increments":                tableRacingIncrements,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// sortKeys are such as an encoding, an escaping or a collation gets wrong.
var sortKeys = []string{
	"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "\x01\x00", "\x01\x01", "\x02", " ", "a", "a\x00", "a\x00b", "a\x01",
	"a\x01b", "a/", "aa", "ab", "A", "B", "b", "z", "{", "é", "e\u0301", "ß", "ﬁ", "\U0001F600", "\x7f", "\x80", "\xc3\x28",
	"\xfe", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff", "10", "9", strings.Repeat("k", 512),
	strings.Repeat("k", 511) + "l", strings.Repeat("\xff", 512), strings.Repeat("\x00", 512),
}

// tableModel holds every answer against a map.
func tableModel(t *testing.T, table coordinator.Table) {
	ctx, runs := t.Context(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &tableRun{t: t, ctx: ctx, table: table, part: fmt.Sprintf("run %d", runs), rows: map[string]coordinator.Row{}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "operation") {
			case 0, 1, 2:
				m.put()
			case 3:
				m.delete()
			case 4:
				m.get()
			case 5:
				m.list()
			}
		}
		m.list()
	})
}

type tableRun struct {
	t     *rapid.T
	ctx   context.Context
	table coordinator.Table
	part  string
	rows  map[string]coordinator.Row
}

func (m *tableRun) key() coordinator.Key {
	return coordinator.Key{Part: m.part, Sort: rapid.SampledFrom(sortKeys).Draw(m.t, "sort key")}
}

// version is mostly that of the row.
func (m *tableRun) version(key coordinator.Key) uint64 {
	v := m.rows[key.Sort].Version
	if rapid.IntRange(0, 4).Draw(m.t, "stale") == 0 {
		return rapid.Uint64Range(0, v+2).Draw(m.t, "version")
	}
	return v
}

func (m *tableRun) put() {
	key := m.key()
	row := coordinator.Row{Key: key, ID: coordinator.NewOpID(), Version: 99} // the version is the store's to say
	row.Value = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(m.t, "value")
	found, ifVersion := m.rows[key.Sort], m.version(key)
	got, err := m.table.Put(m.ctx, row, ifVersion)
	if ifVersion != found.Version {
		m.conflict(err, found)
		return
	}
	row.Version = ifVersion + 1
	if err != nil || !sameRow(got, row) {
		m.t.Fatalf("Put at %d: %v, %+v", ifVersion, err, got)
	}
	m.rows[key.Sort] = row
}

func (m *tableRun) delete() {
	key := m.key()
	found, there := m.rows[key.Sort]
	ifVersion := m.version(key)
	err := m.table.Delete(m.ctx, key, ifVersion)
	switch {
	case !there:
		if !errors.Is(err, coordinator.ErrNotFound) {
			m.t.Fatalf("Delete of nothing: %v", err)
		}
	case ifVersion != found.Version:
		m.conflict(err, found)
	case err != nil:
		m.t.Fatalf("Delete: %v", err)
	default:
		delete(m.rows, key.Sort)
	}
}

func (m *tableRun) conflict(err error, found coordinator.Row) {
	var c *coordinator.Conflict
	if !errors.As(err, &c) || c.Found.Version != found.Version || found.Version != 0 && !sameRow(c.Found, found) {
		m.t.Fatalf("answered %v (%+v), want a conflict with %+v", err, c, found)
	}
}

func (m *tableRun) get() {
	key := m.key()
	want, there := m.rows[key.Sort]
	got, err := m.table.Get(m.ctx, key)
	if there && (err != nil || !sameRow(got, want)) || !there && !errors.Is(err, coordinator.ErrNotFound) {
		m.t.Fatalf("Get: %v, %+v, want %+v", err, got, want)
	}
}

func (m *tableRun) list() {
	prefix := rapid.OneOf(rapid.Just(""), rapid.SampledFrom(sortKeys)).Draw(m.t, "prefix")
	after := rapid.OneOf(rapid.Just(""), rapid.SampledFrom(sortKeys)).Draw(m.t, "after")
	limit := rapid.IntRange(1, 20).Draw(m.t, "limit")
	var want []coordinator.Row
	for key, row := range m.rows {
		if strings.HasPrefix(key, prefix) && key > after {
			want = append(want, row)
		}
	}
	slices.SortFunc(want, func(a, b coordinator.Row) int { return strings.Compare(a.Key.Sort, b.Key.Sort) })
	want = want[:min(limit, len(want))]
	got, err := m.table.List(m.ctx, m.part, prefix, after, limit)
	if err != nil || !slices.EqualFunc(got, want, sameRow) {
		m.t.Fatalf("List of %q after %q: %v\n%+v, want\n%+v", prefix, after, err, got, want)
	}
}

func sameRow(a, b coordinator.Row) bool {
	return a.Key == b.Key && a.Version == b.Version && a.ID == b.ID && bytes.Equal(a.Value, b.Value)
}

// tableParts puts the same sort keys into parts whose names begin alike.
func tableParts(t *testing.T, table coordinator.Table) {
	parts := []string{"a", "ab", "a b", "a ", " a", "a!", "a~", "a~~", "b", "A", "a/b", "a#b", "a%00", "a\\", strings.Repeat("a", 200)}
	keys := []string{"\x00", "b", "~", "\xff", " b"}
	for _, part := range parts {
		for _, key := range keys {
			row := coordinator.Row{Key: coordinator.Key{Part: part, Sort: key}, Value: []byte(part + key)}
			if _, err := table.Put(t.Context(), row, 0); err != nil {
				t.Fatalf("Put %q %q: %v", part, key, err)
			}
		}
	}
	slices.Sort(keys)
	for _, part := range parts {
		rows, err := table.List(t.Context(), part, "", "", 100)
		var got []string
		for _, r := range rows {
			got = append(got, r.Key.Sort)
			if string(r.Value) != part+r.Key.Sort || r.Key.Part != part {
				t.Errorf("part %q lists a row of %q", part, r.Key.Part)
			}
		}
		if err != nil || !slices.Equal(got, keys) {
			t.Errorf("part %q: %v, %q", part, err, got)
		}
	}
	if rows, err := table.List(t.Context(), "a!!", "", "", 100); err != nil || len(rows) != 0 {
		t.Errorf("a part without rows: %v, %v", rows, err)
	}
}

// tablePages walks a listing with every limit: nothing is left out, nothing comes twice.
func tablePages(t *testing.T, table coordinator.Table) {
	all := slices.Clone(sortKeys)
	slices.Sort(all)
	for _, key := range sortKeys {
		if _, err := table.Put(t.Context(), coordinator.Row{Key: coordinator.Key{Part: "p", Sort: key}}, 0); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
	for _, prefix := range []string{"", "a", "\x00", "\xff", strings.Repeat("k", 511)} {
		for _, limit := range []int{1, 2, 7, len(all), len(all) + 1} {
			want := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return !strings.HasPrefix(k, prefix) })
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				rows, err := table.List(t.Context(), "p", prefix, after, limit)
				if err != nil || len(rows) > limit {
					t.Fatalf("List: %v, %d rows", err, len(rows))
				}
				for _, r := range rows {
					got = append(got, r.Key.Sort)
				}
				if len(rows) < limit {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q by %d: %q, want %q", prefix, limit, got, want)
			}
		}
	}
}

// tableLimits takes the largest rows that Key and Row allow, and refuses larger ones before they are written.
func tableLimits(t *testing.T, table coordinator.Table) {
	key := coordinator.Key{Part: strings.Repeat("p", coordinator.MaxPartBytes), Sort: strings.Repeat("\x00", coordinator.MaxSortBytes)}
	row := coordinator.Row{Key: key, Value: bytes.Repeat([]byte{0xff}, coordinator.MaxValueBytes), ID: coordinator.NewOpID()}
	if _, err := table.Put(t.Context(), row, 0); err != nil {
		t.Fatalf("the largest row: %v", err)
	}
	row.Version = 1
	if got, err := table.Get(t.Context(), key); err != nil || !sameRow(got, row) {
		t.Errorf("the largest row is read as %d bytes: %v", len(got.Value), err)
	}
	good := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}}
	for name, spoil := range map[string]func(*coordinator.Row){
		"no part":        func(r *coordinator.Row) { r.Key.Part = "" },
		"long part":      func(r *coordinator.Row) { r.Key.Part += key.Part },
		"part not ASCII": func(r *coordinator.Row) { r.Key.Part = "é" },
		"no sort key":    func(r *coordinator.Row) { r.Key.Sort = "" },
		"long sort key":  func(r *coordinator.Row) { r.Key.Sort += key.Sort },
		"long value":     func(r *coordinator.Row) { r.Value = append(row.Value, 0) },
	} {
		bad := good
		spoil(&bad)
		if _, err := table.Put(t.Context(), bad, 0); !errors.Is(err, coordinator.ErrBadRow) || !coordinator.Definite(err) {
			t.Errorf("%s: %v, want ErrBadRow", name, err)
		}
	}
	if _, err := table.Get(t.Context(), good.Key); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("a refused row: %v", err)
	}
}

func tableOwnership(t *testing.T, table coordinator.Table) {
	row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte("value")}
	put, err := table.Put(t.Context(), row, 0)
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	row.Value[0], put.Value[1] = 'X', 'X'
	for range 2 {
		got, err := table.Get(t.Context(), row.Key)
		if err != nil || string(got.Value) != "value" {
			t.Fatalf("Get: %v, %q", err, got.Value)
		}
		got.Value[2] = 'X'
		rows, err := table.List(t.Context(), "p", "", "", 1)
		if err != nil || len(rows) != 1 || string(rows[0].Value) != "value" {
			t.Fatalf("List: %v, %+v", err, rows)
		}
		rows[0].Value[3] = 'X'
	}
}

func tableEndedContext(t *testing.T, table coordinator.Table) {
	row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte("value")}
	row, err := table.Put(t.Context(), row, 0)
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, put := table.Put(ended, coordinator.Row{Key: row.Key}, 1)
	_, get := table.Get(ended, row.Key)
	_, list := table.List(ended, "p", "", "", 1)
	for name, err := range map[string]error{"Put": put, "Get": get, "List": list, "Delete": table.Delete(ended, row.Key, 1)} {
		if err == nil || errors.Is(err, coordinator.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := table.Get(t.Context(), row.Key); err != nil || !sameRow(got, row) {
		t.Errorf("afterwards: %v, %+v", err, got)
	}
}

func tableRacingCreates(t *testing.T, table coordinator.Table) {
	key := coordinator.Key{Part: "p", Sort: "s"}
	ids := make([]coordinator.OpID, 50)
	errs := make([]error, len(ids))
	race(len(ids), func(i int) {
		ids[i] = coordinator.NewOpID()
		_, errs[i] = persist(func() (coordinator.Row, error) {
			return table.Put(t.Context(), coordinator.Row{Key: key, ID: ids[i]}, 0)
		})
	})
	got, err := table.Get(t.Context(), key)
	if err != nil || got.Version != 1 {
		t.Fatalf("Get: %v, %+v", err, got)
	}
	for i, err := range errs {
		var c *coordinator.Conflict
		switch {
		case err == nil && ids[i] != got.ID:
			t.Errorf("two winners")
		case err != nil && (!errors.As(err, &c) || c.Found.ID != got.ID || ids[i] == got.ID):
			t.Errorf("a losing Put: %v", err)
		}
	}
}

func tableRacingIncrements(t *testing.T, table coordinator.Table) {
	const writers, each = 8, 10
	key := coordinator.Key{Part: "p", Sort: "s"}
	race(writers, func(int) {
		version := uint64(0)
		for done := 0; done < each; {
			row, err := persist(func() (coordinator.Row, error) {
				return table.Put(t.Context(), coordinator.Row{Key: key, ID: coordinator.NewOpID()}, version)
			})
			var c *coordinator.Conflict
			switch {
			case err == nil:
				version = row.Version
				done++
			case errors.As(err, &c) && c.Found.Version > version:
				version = c.Found.Version
			default:
				t.Errorf("Put: %v", err)
				return
			}
		}
	})
	if got, err := table.Get(t.Context(), key); err != nil || got.Version != writers*each {
		t.Errorf("version %d after %d increments: %v", got.Version, writers*each, err)
	}
}
