package tenancy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGroups pins which group permits what, so that an edit of the table does not hand out anything by accident.
func TestGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		group Group
		write bool
		ops   string
	}{
		{AccountGroup, false, "account-metrics get-basin-config get-default-location list-access-tokens list-basins list-locations"},
		{AccountGroup, true, "create-basin delete-basin issue-access-token reconfigure-basin revoke-access-token set-default-location"},
		{BasinGroup, false, "basin-metrics get-stream-config list-streams"},
		{BasinGroup, true, "create-stream delete-stream reconfigure-stream"},
		{StreamGroup, false, "check-tail read stream-metrics"},
		{StreamGroup, true, "append fence trim"},
	} {
		var g Groups
		g[c.group] = Permission{Read: !c.write, Write: c.write}
		var names []string
		for _, op := range g.Ops().List() {
			names = append(names, op.String())
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.ops {
			t.Errorf("group %d, write %v permits %s, want %s", c.group, c.write, got, c.ops)
		}
	}
	everything := Everything()
	if len(AllOps().List()) != 24 || everything.Permitted() != AllOps() {
		t.Errorf("everything is %v, all are %v", everything.Permitted().List(), AllOps().List())
	}
}

func TestOpNames(t *testing.T) {
	t.Parallel()
	for op := Op(1); op < opEnd; op++ {
		if back, ok := ParseOp(op.String()); !ok || back != op {
			t.Errorf("%d is called %q, which is %d", op, op, back)
		}
	}
	for _, name := range []string{"", "Append", "append ", "ensure-basin", "operation 0"} {
		if op, ok := ParseOp(name); ok {
			t.Errorf("%q is %v", name, op)
		}
	}
	for _, op := range []Op{0, opEnd, 63, 64, 255} {
		if AllOps().Has(op) || op.Known() {
			t.Errorf("operation %d is known", op)
		}
		if s := Everything(); s.May(op, Resource{"b", "s", "t"}) {
			t.Errorf("everything has operation %d", op)
		}
	}
}

// drawSet, drawName and drawScope draw from so few names that they meet.
func drawName() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "ab", "abc", "b", "a/", "a/b", "A", "é", "a\x00", "%61"})
}

func drawSet() *rapid.Generator[NameSet] {
	return rapid.Custom(func(t *rapid.T) NameSet {
		return NameSet{drawName().Draw(t, "name"), rapid.Bool().Draw(t, "prefix")}
	})
}

func drawScope() *rapid.Generator[Scope] {
	return rapid.Custom(func(t *rapid.T) Scope {
		s := Scope{Basins: drawSet().Draw(t, "basins"), Streams: drawSet().Draw(t, "streams"), Tokens: drawSet().Draw(t, "tokens")}
		for g := range s.Groups {
			s.Groups[g] = Permission{rapid.Bool().Draw(t, "read"), rapid.Bool().Draw(t, "write")}
		}
		s.Ops = OpSet(rapid.Uint64().Draw(t, "ops")) & AllOps()
		return s
	})
}

func drawResource() *rapid.Generator[Resource] {
	return rapid.Custom(func(t *rapid.T) Resource {
		return Resource{drawName().Draw(t, "basin"), drawName().Draw(t, "stream"), drawName().Draw(t, "token")}
	})
}

func drawOp() *rapid.Generator[Op] {
	return rapid.Custom(func(t *rapid.T) Op { return Op(rapid.IntRange(0, int(opEnd)).Draw(t, "op")) })
}

// TestWithinIsNoEscalation: what is within a scope permits nothing that the scope does not, whatever is asked.
func TestWithinIsNoEscalation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		inner, outer := drawScope().Draw(r, "inner"), drawScope().Draw(r, "outer")
		if rapid.Bool().Draw(r, "made to be within") { // else it hardly ever is
			inner.Ops &= outer.Permitted()
			inner.Groups = Groups{}
			inner.Basins, inner.Streams, inner.Tokens = outer.Basins, outer.Streams.prepended(""), NameSet{}
		}
		if !inner.Within(&outer) {
			return
		}
		op, on := drawOp().Draw(r, "op"), drawResource().Draw(r, "on")
		if inner.May(op, on) && !outer.May(op, on) {
			r.Fatalf("%v on %+v is permitted by %+v, which is within %+v, which does not", op, on, inner, outer)
		}
	})
}

// TestScopesGrow: permitting more takes nothing away, and the empty scope has nothing.
func TestScopesGrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s, op, on := drawScope().Draw(r, "scope"), drawOp().Draw(r, "op"), drawResource().Draw(r, "on")
		if (&Scope{}).May(op, on) || (*Principal)(nil).May(op, on) {
			r.Fatal("nothing permits something")
		}
		if !s.Within(&s) || !(&Scope{}).Within(&s) || !s.Within(ptr(Everything())) {
			r.Fatalf("%+v is not within itself, or everything, or has not nothing within it", s)
		}
		more := s
		more.Ops |= OpsOf(drawOp().Draw(r, "more"))
		more.Streams = AllNames
		if s.May(op, on) && !more.May(op, on) {
			r.Fatalf("%+v permits what %+v does not", s, more)
		}
	})
}

// TestNarrowIsTheIntersection: a listing by what Narrow says has exactly the names that have the prefix and are in
// the set.
func TestNarrowIsTheIntersection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		set, prefix, name := drawSet().Draw(r, "set"), drawName().Draw(r, "prefix"), drawName().Draw(r, "name")
		want := set.Has(name) && strings.HasPrefix(name, prefix)
		by, exact, ok := set.Narrow(prefix)
		got := name != "" && ok && (name == by || !exact && strings.HasPrefix(name, by))
		if got != want {
			r.Fatalf("%q with prefix %q in %+v: %v, narrowed to %q, %v, %v: %v", name, prefix, set, want, by, exact, ok, got)
		}
		if shown := set.below(prefix); name != "" && shown.Has(name) != set.Has(prefix+name) {
			r.Fatalf("%+v below %q is %+v, and %q says otherwise", set, prefix, shown, name)
		}
		if name != "" && set.prepended("x/").Has("x/"+name) != set.Has(name) {
			r.Fatalf("%+v with x/ before it says otherwise of %q", set, name)
		}
	})
}

// TestNamesAreBytes is BL-133: a prefix is a prefix and nothing looser.
func TestNamesAreBytes(t *testing.T) {
	t.Parallel()
	team := NameSet{"team-a/", true}
	for name, in := range map[string]bool{
		"team-a/x": true, "team-a/": true, "team-ab": false, "team-b": false, "TEAM-A/x": false, "xteam-a/": false, "team-a": false, "": false,
	} {
		if team.Has(name) != in {
			t.Errorf("%q in team-a/: %v", name, !in)
		}
	}
	if (NameSet{"", false}).Has("") || (NameSet{}).Has("x") || AllNames.Has("") || !AllNames.Has("\x00") {
		t.Error("the empty name is none, the empty prefix all")
	}
	if (NameSet{"ab", true}).Within(NameSet{"ab", false}) || !(NameSet{"ab", false}).Within(NameSet{"a", true}) {
		t.Error("a prefix is not within a name; a name with a prefix is within it")
	}
}
