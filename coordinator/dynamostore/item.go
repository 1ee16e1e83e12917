package dynamostore

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// attrs is an item, or the key of one.
type attrs map[string]types.AttributeValue

// The key schema, and the attribute that every item of ours has.
const (
	attrPartition = "pk" // string
	attrSort      = "sk" // binary
	attrFormat    = "f"  // number: the version of the item's layout
)

// format is the version of the layout of every item. Conditions demand it, so that an update never rewrites an item
// whose layout it does not know.
const format = 1

// Partition keys. Two spaces of names that cannot meet, and one item beside them.
const (
	headSpace  = "h/" // and the stream id
	rowSpace   = "r/" // and the part
	markerName = "tailrace"
)

// headSort is the sort key of items that are alone in their partition: a sort key may not be empty.
var headSort = []byte{0}

var (
	// ErrVersion: the table, or an item of it, has a layout that this build does not know. Nothing was changed.
	ErrVersion = errors.New("the table has an unknown format version")
	// ErrCorrupt: an item is not what this package writes.
	ErrCorrupt = errors.New("an item of the table is corrupt")
)

func number(v uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(v, 10)}
}

func blob(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func boolean(v bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: v} }

func key(partition string, sort []byte) attrs {
	return attrs{attrPartition: text(partition), attrSort: blob(sort)}
}

// Numbers are always there, since conditions compare them and updates count with them. Bytes, texts and ids that are
// empty are left out: an absent attribute costs nothing, and compares without exceptions for empty values.

func (a attrs) setBytes(name string, b []byte) {
	if len(b) > 0 {
		a[name] = blob(b)
	}
}

func (a attrs) setText(name, s string) {
	if s != "" {
		a[name] = text(s)
	}
}

func (a attrs) setOp(name string, id coordinator.OpID) {
	if !id.IsZero() {
		a[name] = blob(id[:])
	}
}

// decoder reads attributes and keeps the first fault.
type decoder struct {
	attrs attrs
	err   error
}

// decode checks the format of an item before anything else of it is read.
func decode(a attrs) *decoder {
	d := &decoder{attrs: a}
	if v := d.num(attrFormat); d.err == nil && v != format {
		d.err = fmt.Errorf("%w: %d; this build knows version %d", ErrVersion, v, format)
	}
	return d
}

func (d *decoder) fail(name, problem string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: attribute %s %s", ErrCorrupt, name, problem)
	}
}

// optional is the attribute if it is there; of another type than T, it is a fault.
func optional[T types.AttributeValue](d *decoder, name string) (v T, ok bool) {
	found, there := d.attrs[name]
	if !there {
		return v, false
	}
	if v, ok = found.(T); !ok {
		d.fail(name, fmt.Sprintf("is a %T", found))
	}
	return v, ok
}

func required[T types.AttributeValue](d *decoder, name string) (v T, ok bool) {
	if v, ok = optional[T](d, name); !ok {
		d.fail(name, "is missing")
	}
	return v, ok
}

func (d *decoder) num(name string) uint64 {
	n, ok := required[*types.AttributeValueMemberN](d, name)
	if !ok {
		return 0
	}
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil {
		d.fail(name, "is no number of 64 bits")
	}
	return v
}

func (d *decoder) boolean(name string) bool {
	b, ok := required[*types.AttributeValueMemberBOOL](d, name)
	return ok && b.Value
}

func (d *decoder) bytes(name string) []byte {
	if b, ok := optional[*types.AttributeValueMemberB](d, name); ok {
		return b.Value
	}
	return nil
}

func (d *decoder) text(name string) string {
	if s, ok := optional[*types.AttributeValueMemberS](d, name); ok {
		return s.Value
	}
	return ""
}

// id reads 16 bytes into dst, which stays zero if there are none.
func (d *decoder) id(name string, dst *[16]byte) {
	b := d.bytes(name)
	switch len(b) {
	case 0:
	case len(dst):
		copy(dst[:], b)
	default:
		d.fail(name, fmt.Sprintf("has %d bytes", len(b)))
	}
}

func (d *decoder) op(name string) (id coordinator.OpID) {
	d.id(name, (*[16]byte)(&id))
	return id
}
