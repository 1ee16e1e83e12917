package tenancy

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

var update = flag.Bool("update", false, "write the golden files anew")

// samples holds one row of every kind with no field zero, except where a state forbids it: a creating stream shows
// its config, a dying one the time.
func samples() map[string]record {
	basinID := segments.BasinID(uuid.MustParse("018f4e0a-0000-7000-8000-000000000001"))
	streamID := segments.StreamID(uuid.MustParse("018f4e0a-0000-7000-8000-000000000002"))
	settings := Settings{
		ptr(coordinator.Standard), &Retention{Age: 60, Infinite: false}, ptr(coordinator.ArrivalTime), ptr(true),
		ptr(uint64(9)), ptr(coordinator.Exclusive),
	}
	infinite := settings
	infinite.Retention = &Retention{Infinite: true}
	config := coordinator.StreamConfig{
		StorageClass: coordinator.Standard, RetentionAge: 60, Timestamping: coordinator.ArrivalTime, Uncapped: true,
		DeleteOnEmptyMinAge: 9, Fencing: coordinator.Exclusive,
	}
	return map[string]record{
		"basin": &basinRow{
			State: Deleting, ID: basinID, Account: "a-one", CreatedAt: 1700000000001, DeletedAt: 1700000000002, Location: "aws:us-east-1",
			Config:  BasinConfig{settings, "aegis-256", true, true},
			Request: digest("token", &settings),
		},
		"basin_infinite": &basinRow{State: Active, ID: basinID, CreatedAt: 1, Config: BasinConfig{DefaultStream: infinite}},
		"stream_creating": &streamRow{
			State: Creating, ID: streamID, CreatedAt: 1700000000001, Cipher: "aegis-256",
			Request: digest("token", &settings), Config: &config,
		},
		"stream_deleting": &streamRow{
			State: Deleting, ID: streamID, CreatedAt: 1700000000001, DeletedAt: 1700000000002, Cipher: "aegis-256",
			Request: digest("token", &settings),
		},
		"work_stream": &workRow{
			Kind: finishStream, Due: 1700000000003, Basin: basinID, Stream: streamID, BasinName: "the-basin", Name: "one",
		},
		"work_basin": &workRow{
			Kind: finishBasin, Due: 1700000000003, Basin: basinID, BasinName: "the-basin", Cursor: "one", Dirty: true,
		},
		"account": &accountRow{Name: "One", CreatedAt: 1700000000001, Suspended: true},
		"token": &tokenRow{
			State: Active, Hash: hexOf(digestOf("text")), CreatedAt: 1700000000001, ExpiresAt: 1700000000002, Issuer: "root", Auto: true,
			Scope: &scopeRow{
				NameSet{"basin", false}, NameSet{"stream", true}, AllNames,
				Groups{{true, true}, {true, true}, {true, true}}, AllOps(),
			},
		},
		"token_revoked": &tokenRow{
			State: Deleted, CreatedAt: 1700000000001, ExpiresAt: 1700000000002, RevokedAt: 1700000000003, Issuer: "root",
		},
		"root":        &rootRow{Hash: hexOf(digestOf("text")), CreatedAt: 1700000000001},
		"dead_stream": &deadRow{Name: "one", DeletedAt: 1700000000002},
		"dead_basin":  &deadBasinRow{Name: "the-basin", DeletedAt: 1700000000002, EmptySince: 1700000000003},
	}
}

// emptyLike makes a zero row of the same kind.
func emptyLike(r record) record { return reflect.New(reflect.TypeOf(r).Elem()).Interface().(record) }

// TestGolden pins the stored form of every row kind, the digest of a request, and that it reads back.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, r := range samples() {
		path := filepath.Join("testdata", name+".json")
		got := append(encode(r), '\n')
		if *update {
			must(t, os.WriteFile(path, got, 0o644))
		}
		want, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stored as\n%swant\n%s", name, got, want)
		}
		back := emptyLike(r)
		must(t, decode(want, back))
		if !reflect.DeepEqual(back, r) {
			t.Errorf("%s reads back as %+v", name, back)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := samples()
	basinID := s["basin"].(*basinRow).ID
	ref := coordinator.StreamRef{Basin: basinID, Stream: s["stream_creating"].(*streamRow).ID}
	for _, c := range []struct {
		got        coordinator.Key
		part, sort string
	}{
		{basinKey("the-basin"), "basins", "the-basin"},
		{streamKey(basinID, "a/\u00e9"), "streams/018f4e0a-0000-7000-8000-000000000001", "a/\u00e9"},
		{s["work_stream"].(*workRow).key(), "work/02", "018bcfe56803/finish_stream/018f4e0a-0000-7000-8000-000000000002"},
		{s["work_basin"].(*workRow).key(), "work/01", "018bcfe56803/finish_basin/018f4e0a-0000-7000-8000-000000000001"},
		{deadKey(ref), "dead/018f4e0a-0000-7000-8000-000000000001", "018f4e0a-0000-7000-8000-000000000002"},
		{accountKey("a-one"), "accounts", "a-one"},
		{tokenKey("a-one", "tok/\u00e9"), "tokens/a-one", "tok/\u00e9"},
		{rootKey(), "root", "token"},
		{deadBasinKey(basinID), "dead-basins", "018f4e0a-0000-7000-8000-000000000001"},
	} {
		if c.got != (coordinator.Key{Part: c.part, Sort: c.sort}) {
			t.Errorf("got %q, want %q %q", c.got, c.part, c.sort)
		}
		must(t, c.got.Validate())
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const id = `"018f4e0a-0000-7000-8000-000000000002"`
	for name, value := range map[string]string{
		"nothing":          ``,
		"no object":        `7`,
		"no version":       `{"state":"active","id":` + id + `}`,
		"later version":    `{"v":2,"state":"active","id":` + id + `}`,
		"unknown field":    `{"v":1,"state":"active","id":` + id + `,"colour":"red"}`,
		"unknown state":    `{"v":1,"state":"asleep","id":` + id + `}`,
		"no id":            `{"v":1,"state":"active"}`,
		"bad id":           `{"v":1,"state":"active","id":"x"}`,
		"two values":       `{"v":1,"state":"active","id":` + id + `}{}`,
		"creating, bare":   `{"v":1,"state":"creating","id":` + id + `}`,
		"active, a config": `{"v":1,"state":"active","id":` + id + `,"config":{}}`,
	} {
		if err := decode([]byte(value), &streamRow{}); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, decode([]byte(`{"v":1,"state":"active","id":`+id+`}`), &streamRow{}))
}

// TestBadRow: a row that does not decode is an error of its own, and nothing is written over it.
func TestBadRow(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	ctx := t.Context()
	b, err := d.basin(ctx, theBasin)
	must(t, err)
	row, err := w.store.Put(ctx, coordinator.Row{
		Key: streamKey(b.ID, "one"), Value: []byte(`{"v":9}`), ID: coordinator.NewOpID(),
	}, 0)
	must(t, err)
	_, _, err = d.CreateStream(ctx, theBasin, "one", Settings{}, "")
	wantErr(t, err, ErrBadRow)
	_, err = d.Resolve(ctx, theBasin, "one", Append)
	wantErr(t, err, ErrBadRow)
	_, err = d.DeleteStream(ctx, theBasin, "one")
	wantErr(t, err, ErrBadRow)
	_, err = d.ListStreams(ctx, theBasin, "", "", 0)
	wantErr(t, err, ErrBadRow)
	now, err := w.store.Get(ctx, row.Key)
	must(t, err)
	if now.Version != row.Version {
		t.Error("the row was written over")
	}
}

// FuzzDecode: no value makes a decoder panic, and what it accepts is written as something it reads back equal.
func FuzzDecode(f *testing.F) {
	for _, r := range samples() {
		f.Add(encode(r))
	}
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, kind := range []record{&basinRow{}, &streamRow{}, &workRow{}, &deadRow{}, &deadBasinRow{}, &accountRow{}, &tokenRow{}, &rootRow{}} {
			if err := decode(value, kind); err != nil {
				if !errors.Is(err, ErrBadRow) {
					t.Fatalf("error %v", err)
				}
				continue
			}
			again := emptyLike(kind)
			if err := decode(encode(kind), again); err != nil {
				t.Fatalf("%s does not read back: %v", encode(kind), err)
			}
			if !bytes.Equal(encode(again), encode(kind)) {
				t.Fatalf("%s reads back as %s", encode(kind), encode(again))
			}
		}
	})
}

// TestNoSecrets: a request token is stored as a digest only, and errors of bad rows do not tell what is in them.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.directory()
	_, _, err := d.CreateBasin(t.Context(), theBasin, "", BasinConfig{}, "secret-token")
	must(t, err)
	row, err := w.store.Get(t.Context(), basinKey(theBasin))
	must(t, err)
	if strings.Contains(string(row.Value), "secret-token") || !json.Valid(row.Value) {
		t.Errorf("stored %s", row.Value)
	}
	a := w.accounts(AccountsOptions{})
	made, err := a.EnsureRoot(t.Context())
	must(t, err)
	bearer, err := a.Issue(t.Context(), operator(), TokenSpec{ID: "t", Scope: Everything()})
	must(t, err)
	for text, key := range map[string]coordinator.Key{made: rootKey(), bearer: tokenKey(DefaultAccount, "t")} {
		raw, err := base64.RawURLEncoding.DecodeString(text[len(bearerPrefix):])
		must(t, err)
		secret := raw[len(raw)-secretBytes:]
		row, err := w.store.Get(t.Context(), key)
		must(t, err)
		for _, form := range []string{
			text[len(text)-40:], string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret),
		} {
			if strings.Contains(string(row.Value), form) {
				t.Errorf("the secret of a token is in %s", row.Value)
			}
		}
		if !strings.Contains(string(row.Value), hexOf(digestOf(text))) {
			t.Errorf("its hash is not in %s", row.Value)
		}
	}
}
