package api

import (
	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// This file turns configurations of the wire into those of tenancy and back. The two differ in shape only: the wire
// nests, tenancy lists leaves.

// settings are the leaves that a config on the wire sets.
func settings(c *wire.StreamConfig) (s tenancy.Settings) {
	if c == nil {
		return s
	}
	s.StorageClass = (*coordinator.StorageClass)(c.StorageClass)
	s.Fencing = (*coordinator.FencingMode)(c.Fencing)
	if p := c.RetentionPolicy; p != nil {
		r := retention(*p)
		s.Retention = &r
	}
	if t := c.Timestamping; t != nil {
		s.TimestampingMode, s.Uncapped = (*coordinator.TimestampingMode)(t.Mode), t.Uncapped
	}
	if d := c.DeleteOnEmpty; d != nil {
		s.DeleteOnEmptyMinAge = &d.MinAgeSecs
	}
	return s
}

func retention(p wire.RetentionPolicy) tenancy.Retention {
	if p.Infinite {
		return tenancy.Retention{Infinite: true}
	}
	return tenancy.Retention{Age: p.Age}
}

// wireSettings shows what was set; what was not is null.
func wireSettings(s tenancy.Settings) (c wire.StreamConfig) {
	c.StorageClass = (*wire.StorageClass)(s.StorageClass)
	c.Fencing = (*wire.FencingMode)(s.Fencing)
	if s.Retention != nil {
		c.RetentionPolicy = &wire.RetentionPolicy{Age: s.Retention.Age, Infinite: s.Retention.Infinite}
	}
	if s.TimestampingMode != nil || s.Uncapped != nil {
		c.Timestamping = &wire.Timestamping{Mode: (*wire.TimestampingMode)(s.TimestampingMode), Uncapped: s.Uncapped}
	}
	if s.DeleteOnEmptyMinAge != nil {
		c.DeleteOnEmpty = &wire.DeleteOnEmpty{MinAgeSecs: *s.DeleteOnEmptyMinAge}
	}
	return c
}

// wireStreamConfig shows a resolved config with all of its leaves.
func wireStreamConfig(c coordinator.StreamConfig) wire.StreamConfig {
	mode, uncapped := wire.TimestampingMode(c.Timestamping), c.Uncapped
	class, fencing := wire.StorageClass(c.StorageClass), wire.FencingMode(c.Fencing)
	return wire.StreamConfig{
		StorageClass:    &class,
		RetentionPolicy: &wire.RetentionPolicy{Age: c.RetentionAge, Infinite: c.RetentionAge == 0},
		Timestamping:    &wire.Timestamping{Mode: &mode, Uncapped: &uncapped},
		DeleteOnEmpty:   &wire.DeleteOnEmpty{MinAgeSecs: c.DeleteOnEmptyMinAge},
		Fencing:         &fencing,
	}.ForResponse()
}

func basinConfig(c *wire.BasinConfig) (b tenancy.BasinConfig) {
	if c == nil {
		return b
	}
	b.DefaultStream = settings(c.DefaultStreamConfig)
	if c.StreamCipher != nil {
		b.StreamCipher = string(*c.StreamCipher)
	}
	b.CreateOnAppend, b.CreateOnRead = c.CreateStreamOnAppend, c.CreateStreamOnRead
	return b
}

func wireBasinConfig(b tenancy.BasinConfig) wire.BasinConfig {
	defaults := wireSettings(b.DefaultStream)
	return wire.BasinConfig{
		DefaultStreamConfig:  &defaults,
		StreamCipher:         cipher(b.StreamCipher),
		CreateStreamOnAppend: b.CreateOnAppend,
		CreateStreamOnRead:   b.CreateOnRead,
	}.ForResponse()
}

func cipher(name string) *wire.Cipher {
	if name == "" {
		return nil
	}
	c := wire.Cipher(name)
	return &c
}

// patchOf gives each leaf its state; null of a whole object is null of each leaf in it.
func patchOf(c wire.StreamReconfiguration) tenancy.Patch {
	p := tenancy.Patch{
		StorageClass: field(c.StorageClass, func(v wire.StorageClass) coordinator.StorageClass { return coordinator.StorageClass(v) }),
		Retention:    field(c.RetentionPolicy, retention),
		Fencing:      field(c.Fencing, func(v wire.FencingMode) coordinator.FencingMode { return coordinator.FencingMode(v) }),
	}
	null := tenancy.NullPatch()
	if t, ok := c.Timestamping.Get(); ok {
		p.TimestampingMode = field(t.Mode, func(v wire.TimestampingMode) coordinator.TimestampingMode { return coordinator.TimestampingMode(v) })
		p.Uncapped = field(t.Uncapped, same[bool])
	} else if c.Timestamping.IsNull() {
		p.TimestampingMode, p.Uncapped = null.TimestampingMode, null.Uncapped
	}
	if d, ok := c.DeleteOnEmpty.Get(); ok {
		p.DeleteOnEmptyMinAge = field(d.MinAgeSecs, same[uint64])
	} else if c.DeleteOnEmpty.IsNull() {
		p.DeleteOnEmptyMinAge = null.DeleteOnEmptyMinAge
	}
	return p
}

func basinPatchOf(c wire.BasinReconfiguration) tenancy.BasinPatch {
	p := tenancy.BasinPatch{
		StreamCipher:   field(c.StreamCipher, func(v wire.Cipher) string { return string(v) }),
		CreateOnAppend: c.CreateStreamOnAppend,
		CreateOnRead:   c.CreateStreamOnRead,
	}
	if d, ok := c.DefaultStreamConfig.Get(); ok {
		p.DefaultStream = patchOf(d)
	} else if c.DefaultStreamConfig.IsNull() {
		p.DefaultStream = tenancy.NullPatch()
	}
	return p
}

func same[T any](v T) T { return v }

// field carries the three states over.
func field[W, T any](o wire.Optional[W], convert func(W) T) tenancy.Field[T] {
	if v, ok := o.Get(); ok {
		return tenancy.Value(convert(v))
	}
	return tenancy.Field[T]{Present: o.Present()}
}
