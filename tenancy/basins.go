package tenancy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// Outcome is what a creation came to.
type Outcome string

// The provision results of the S2 API.
const (
	Created Outcome = "created"
	Updated Outcome = "updated"
	Noop    Outcome = "noop"
)

// BasinInfo is a basin as listings show it. DeletedAt is zero unless it is being deleted.
type BasinInfo struct {
	Name      string
	ID        segments.BasinID
	Account   AccountID
	Location  string
	CreatedAt time.Time
	DeletedAt time.Time
	// Version is that of the directory's row: it counts the changes of this name, and names revisions.
	Version uint64
}

// basin is a name's row as it was read; without a row, State is empty and v is 0.
type basin struct {
	basinRow
	name string
	v    uint64
}

func (b *basin) info() BasinInfo {
	return BasinInfo{b.name, b.ID, b.account(), b.Location, toTime(b.CreatedAt), toTime(b.DeletedAt), b.v}
}

// CreateBasin makes a basin. A non-empty token makes it idempotent: a repetition with the same token and config is
// answered Noop with the original info, for as long as the basin lives. Otherwise ErrBasinExists or ErrBasinDeleting. A
// name that another account has is ErrBasinExists whatever becomes of it.
func (d *Directory) CreateBasin(ctx context.Context, name, location string, config BasinConfig, token string) (BasinInfo, Outcome, error) {
	location, err := d.placed(location)
	if err != nil {
		return BasinInfo{}, "", err
	}
	request := digest(token, &config)
	b, created, err := d.provisionBasin(ctx, name, location, config, request)
	switch {
	case err != nil:
		return BasinInfo{}, "", err
	case created:
		return b.info(), Created, nil
	case request != "" && request == b.Request:
		return b.info(), Noop, nil
	}
	return BasinInfo{}, "", ErrBasinExists
}

// EnsureBasin makes a basin or replaces its config. What the request leaves out is reset, except for the fencing
// default, which clients of the S2 API do not know.
func (d *Directory) EnsureBasin(ctx context.Context, name, location string, config BasinConfig) (BasinInfo, Outcome, error) {
	place, err := d.placed(location)
	if err != nil {
		// It may be what the location was called when the basin was made.
		if b, missing := d.basin(ctx, name); missing != nil || b.Location != location {
			return BasinInfo{}, "", err
		}
		place = location
	}
	b, created, err := d.provisionBasin(ctx, name, place, config, "")
	if err != nil {
		return BasinInfo{}, "", err
	}
	if d.Location != "" && location != "" && b.Location != "" && b.Location != location {
		return BasinInfo{}, "", invalid("location: the basin is in %q, and a basin stays where it was made", b.Location)
	}
	if created {
		return b.info(), Created, nil
	}
	b, changed, err := d.updateBasin(ctx, name, func(old BasinConfig) BasinConfig {
		replaced := config
		if replaced.DefaultStream.Fencing == nil {
			replaced.DefaultStream.Fencing = old.DefaultStream.Fencing
		}
		return replaced
	})
	if err != nil {
		return BasinInfo{}, "", err
	}
	if changed {
		return b.info(), Updated, nil
	}
	return b.info(), Noop, nil
}

// placed is where a basin is made that somebody wants in a location, or says nothing of it.
func (d *Directory) placed(location string) (string, error) {
	switch {
	case d.Location == "", location == d.Location:
		return location, nil
	case location == "":
		return d.Location, nil
	}
	return "", invalid("location: %q is not one of this server's, which is %q", location, d.Location)
}

// ReconfigureBasin applies a patch and returns the basin with the resulting config.
func (d *Directory) ReconfigureBasin(ctx context.Context, name string, patch BasinPatch) (BasinInfo, BasinConfig, error) {
	if err := patch.DefaultStream.values().check(); err != nil {
		return BasinInfo{}, BasinConfig{}, err
	}
	b, _, err := d.updateBasin(ctx, name, patch.on)
	return b.info(), b.Config, err
}

// GetBasin returns a basin, also while it is being deleted. The config holds what was set, nothing resolved.
func (d *Directory) GetBasin(ctx context.Context, name string) (BasinInfo, BasinConfig, error) {
	b, err := d.basin(ctx, name)
	if err != nil {
		return BasinInfo{}, BasinConfig{}, untouched(err)
	}
	return b.info(), b.Config, nil
}

// getBasin reads a name strongly, whatever its state.
func (d *Directory) getBasin(ctx context.Context, name string) (basin, error) {
	b := basin{name: name}
	if err := checkName("basin", name); err != nil {
		return b, err
	}
	v, err := d.get(ctx, basinKey(name), &b.basinRow)
	b.v = v
	return b, err
}

// basin reads a basin that is there strongly, active or deleting, and is of the account that the context is on behalf
// of. Another account's is as good as absent: the same answer, after the same one read.
func (d *Directory) basin(ctx context.Context, name string) (basin, error) {
	b, err := d.anyBasin(ctx, name)
	account := accountOf(ctx)
	if err == nil && b.account() != account {
		return basin{name: name}, ErrBasinNotFound
	}
	if err == nil {
		d.basins.Set(owned{account, name}, b.ID)
	}
	return b, err
}

// anyBasin is basin for what is done on nobody's behalf, or on that of whoever began it.
func (d *Directory) anyBasin(ctx context.Context, name string) (basin, error) {
	b, err := d.getBasin(ctx, name)
	if err == nil && b.State != Active && b.State != Deleting {
		return b, ErrBasinNotFound
	}
	return b, err
}

// activeBasin reads a basin that may get new streams.
func (d *Directory) activeBasin(ctx context.Context, name string) (basin, error) {
	b, err := d.basin(ctx, name)
	if err == nil && b.State == Deleting {
		return b, ErrBasinDeleting
	}
	return b, err
}

// provisionBasin makes a basin unless there is one, and tells which.
func (d *Directory) provisionBasin(ctx context.Context, name, location string, config BasinConfig, request string) (basin, bool, error) {
	if err := config.check(d.Ciphers); err != nil {
		return basin{}, false, err
	}
	account := accountOf(ctx)
	if reserved(name, account) {
		return basin{}, false, ErrBasinExists
	}
	for n := 0; n < attempts && pause(ctx, n); n++ {
		// Not a blind Put: that would cost a failed write for every PUT of a basin that is there.
		b, err := d.getBasin(ctx, name)
		switch {
		case err != nil:
			return b, false, untouched(err)
		case b.State != "" && b.State != Deleted && b.account() != account:
			return basin{}, false, ErrBasinExists // without telling whose, nor what becomes of it
		case b.State == Active:
			return b, false, nil
		case b.State == Deleting:
			return b, false, ErrBasinDeleting
		}
		made := basin{name: name, basinRow: basinRow{
			State: Active, ID: segments.NewBasinID(), Account: inRow(account), CreatedAt: d.now(),
			Location: location, Config: config, Request: request,
		}}
		made.v, err = d.put(ctx, basinKey(name), &made.basinRow, b.v)
		var m *moved
		if !errors.As(err, &m) {
			return made, true, untouched(err)
		}
		// The id was made for this call: whatever else the row has become, it was this call's first.
		found := basinRow{}
		if decode(m.found.Value, &found) == nil && found.ID == made.ID {
			made.v = m.found.Version
			return made, true, nil
		}
		if m.doubt {
			return basin{}, false, inDoubt(err)
		}
	}
	return basin{}, false, exhausted(ctx)
}

// updateBasin replaces the config of an active basin by what change makes of it, and tells whether that differs.
func (d *Directory) updateBasin(ctx context.Context, name string, change func(BasinConfig) BasinConfig) (basin, bool, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		b, err := d.activeBasin(ctx, name)
		if err != nil {
			return b, false, untouched(err)
		}
		next := b
		next.Config = change(b.Config)
		// A cipher that is there already may stay, even if this server does not know it.
		if err := next.Config.check(append([]string{b.Config.StreamCipher}, d.Ciphers...)); err != nil {
			return b, false, err
		}
		if next.Config.equal(&b.Config) {
			return b, false, nil
		}
		next.v, err = d.put(ctx, basinKey(name), &next.basinRow, b.v)
		var m *moved
		if !errors.As(err, &m) {
			return next, true, untouched(err)
		}
		// A config has no id of its own, so the content does not tell whether ours was among what is covered now.
		if m.doubt {
			return b, false, inDoubt(err)
		}
	}
	return basin{}, false, exhausted(ctx)
}

// exhausted is the definite end of a loop that lost every race, or whose caller went away between two of them.
func exhausted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return untouched(err)
	}
	return ErrConflict
}

// digest recognises the repetition of a creation: by its token and by the config as requested, before defaults.
func digest(token string, config any) string {
	if token == "" {
		return ""
	}
	b, err := json.Marshal([]any{token, config})
	if err != nil {
		panic("tenancy: config does not encode: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
