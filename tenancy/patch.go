package tenancy

import "github.com/tailrace-streams/tailrace/coordinator"

// Field is one leaf of a PATCH, in three states: the zero value leaves it alone, Null resets it, Value sets it.
type Field[T any] struct {
	Present bool
	Value   *T // nil, if present, is null
}

// Null is the field that resets.
func Null[T any]() Field[T] { return Field[T]{Present: true} }

// Value is the field that sets v.
func Value[T any](v T) Field[T] { return Field[T]{true, &v} }

// Patch changes some leaves of a stream's configuration, or of a basin's defaults. Null of a whole object is Null of
// each leaf in it.
type Patch struct {
	StorageClass        Field[coordinator.StorageClass]
	Retention           Field[Retention]
	TimestampingMode    Field[coordinator.TimestampingMode]
	Uncapped            Field[bool]
	DeleteOnEmptyMinAge Field[uint64]
	Fencing             Field[coordinator.FencingMode]
}

// NullPatch resets every leaf.
func NullPatch() Patch {
	return Patch{
		StorageClass: Null[coordinator.StorageClass](), Retention: Null[Retention](),
		TimestampingMode: Null[coordinator.TimestampingMode](), Uncapped: Null[bool](),
		DeleteOnEmptyMinAge: Null[uint64](), Fencing: Null[coordinator.FencingMode](),
	}
}

// BasinPatch changes some of a basin's configuration; a nil flag leaves it alone.
type BasinPatch struct {
	DefaultStream  Patch
	StreamCipher   Field[string]
	CreateOnAppend *bool
	CreateOnRead   *bool
}

// values are the leaves that the patch sets, for checking them.
func (p *Patch) values() *Settings {
	return &Settings{
		p.StorageClass.Value, p.Retention.Value, p.TimestampingMode.Value, p.Uncapped.Value,
		p.DeleteOnEmptyMinAge.Value, p.Fencing.Value,
	}
}

// onStream patches a resolved config: null takes the leaf of base, the basin's current defaults.
func (p *Patch) onStream(c, base coordinator.StreamConfig) coordinator.StreamConfig {
	p.StorageClass.resolve(&c.StorageClass, base.StorageClass)
	p.TimestampingMode.resolve(&c.Timestamping, base.Timestamping)
	p.Uncapped.resolve(&c.Uncapped, base.Uncapped)
	p.DeleteOnEmptyMinAge.resolve(&c.DeleteOnEmptyMinAge, base.DeleteOnEmptyMinAge)
	p.Fencing.resolve(&c.Fencing, base.Fencing)
	if p.Retention.Present {
		c.RetentionAge = base.RetentionAge
		if p.Retention.Value != nil {
			c.RetentionAge = p.Retention.Value.seconds()
		}
	}
	return c
}

func (f Field[T]) resolve(leaf *T, base T) {
	if !f.Present {
		return
	}
	*leaf = base
	set(leaf, f.Value)
}

// onDefaults patches what a basin sets: null unsets.
func (p *Patch) onDefaults(s Settings) Settings {
	p.StorageClass.store(&s.StorageClass)
	p.Retention.store(&s.Retention)
	p.TimestampingMode.store(&s.TimestampingMode)
	p.Uncapped.store(&s.Uncapped)
	p.DeleteOnEmptyMinAge.store(&s.DeleteOnEmptyMinAge)
	p.Fencing.store(&s.Fencing)
	return s
}

func (f Field[T]) store(leaf **T) {
	if f.Present {
		*leaf = f.Value
	}
}

func (p *BasinPatch) on(c BasinConfig) BasinConfig {
	c.DefaultStream = p.DefaultStream.onDefaults(c.DefaultStream)
	p.StreamCipher.resolve(&c.StreamCipher, "")
	set(&c.CreateOnAppend, p.CreateOnAppend)
	set(&c.CreateOnRead, p.CreateOnRead)
	return c
}
