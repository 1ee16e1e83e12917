package coordinator

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tailrace-streams/tailrace/segments"
)

// HeadVersion is the version of the encoding below. A store refuses heads of a version it does not know, since
// rewriting one would drop what it does not understand.
const HeadVersion = 1

// ErrBadHead is wrapped by every error of DecodeHead, DecodeEntry and DecodeRoot.
var ErrBadHead = errors.New("head does not decode")

// The encoding is protobuf's wire format, written by hand: field numbers may be added, never reused. A zero value is
// not written.
const (
	headVersion = iota + 1
	headV
	headBasin
	headStream
	headState
	headStateID
	headConfigV
	headConfigID
	headStorageClass
	headRetention
	headTimestamping
	headUncapped
	headDeleteOnEmpty
	headFencing
	headTail
	headBase
	headBaseTime
	headInlineBytes
	headToken
	headTokenV
	headTokenID
	headTrim
	headTrimTime
	headFloor
	headHorizon
	headCancelled
	headLeaseNode
	headLeaseAddress
	headLeaseTerm
	headLeaseExpiry
	headCreatedAt
	headRoot
	headEntry
	headCipher
)

const (
	entryID = iota + 1
	entryN
	entrySkip
	entryMaxTime
	entryArrival
	entryBytes
	entryObject
	entryOffset
	entryLength
	entryData
)

const (
	rootLevel = iota + 1
	rootStart
	rootN
	rootTimeBefore
	rootTimeAfter
	rootArrivalMin
	rootArrivalMax
	rootBytes
	rootIDsMin
	rootIDsMax
	rootObjectsMin
	rootObjectsMax
	rootChild
	rootChildBytes
)

type encoder struct{ b []byte }

func (e *encoder) num(field protowire.Number, v uint64) {
	if v != 0 {
		e.b = protowire.AppendVarint(protowire.AppendTag(e.b, field, protowire.VarintType), v)
	}
}

func (e *encoder) flag(field protowire.Number, v bool) {
	if v {
		e.num(field, 1)
	}
}

func (e *encoder) bytes(field protowire.Number, v []byte) {
	if len(v) != 0 {
		e.b = protowire.AppendBytes(protowire.AppendTag(e.b, field, protowire.BytesType), v)
	}
}

func (e *encoder) op(field protowire.Number, id OpID) {
	if !id.IsZero() {
		e.bytes(field, id[:])
	}
}

// AppendHead encodes the head; without its log if log is false, for stores that keep the entries beside it.
func AppendHead(dst []byte, h *Head, log bool) []byte {
	e := &encoder{dst}
	e.num(headVersion, HeadVersion)
	e.num(headV, h.V)
	e.bytes(headBasin, h.Basin[:])
	e.bytes(headStream, h.Stream[:])
	e.num(headState, uint64(h.State))
	e.op(headStateID, h.StateID)
	e.num(headConfigV, h.ConfigV)
	e.op(headConfigID, h.ConfigID)
	e.bytes(headStorageClass, []byte(h.Config.StorageClass))
	e.num(headRetention, h.Config.RetentionAge)
	e.bytes(headTimestamping, []byte(h.Config.Timestamping))
	e.flag(headUncapped, h.Config.Uncapped)
	e.num(headDeleteOnEmpty, h.Config.DeleteOnEmptyMinAge)
	e.bytes(headFencing, []byte(h.Config.Fencing))
	e.num(headTail, h.Tail)
	e.num(headBase, h.Base)
	e.num(headBaseTime, h.BaseTime)
	e.num(headInlineBytes, h.InlineBytes)
	e.bytes(headToken, []byte(h.Token))
	e.num(headTokenV, h.TokenV)
	e.op(headTokenID, h.TokenID)
	e.num(headTrim, h.Trim)
	e.num(headTrimTime, h.TrimTime)
	e.num(headFloor, h.Floor)
	e.num(headHorizon, uint64(h.Horizon))
	for _, id := range h.Cancelled {
		e.bytes(headCancelled, id.Bytes())
	}
	e.bytes(headLeaseNode, []byte(h.Lease.Node))
	e.bytes(headLeaseAddress, []byte(h.Lease.Address))
	e.num(headLeaseTerm, h.Lease.Term)
	e.num(headLeaseExpiry, h.Lease.Expiry)
	e.num(headCreatedAt, h.CreatedAt)
	e.bytes(headCipher, []byte(h.Cipher))
	for i := range h.Pages {
		e.bytes(headRoot, AppendRoot(nil, &h.Pages[i]))
	}
	if log {
		for i := range h.Log {
			e.bytes(headEntry, AppendEntry(nil, &h.Log[i]))
		}
	}
	return e.b
}

// AppendEntry encodes one entry of a log.
func AppendEntry(dst []byte, en *segments.Entry) []byte {
	e := &encoder{dst}
	e.bytes(entryID, en.ID.Bytes())
	e.num(entryN, uint64(en.N))
	e.num(entrySkip, uint64(en.Skip))
	e.num(entryMaxTime, en.MaxTime)
	e.num(entryArrival, en.Arrival)
	e.num(entryBytes, en.Bytes)
	if en.Inline() {
		e.bytes(entryData, en.Data)
		return e.b
	}
	e.bytes(entryObject, en.Object[:])
	e.num(entryOffset, en.Offset)
	e.num(entryLength, uint64(en.Length))
	return e.b
}

// AppendRoot encodes one root of the page tree, for stores that keep the roots beside the rest of a head.
func AppendRoot(dst []byte, r *Root) []byte {
	e := &encoder{dst}
	e.num(rootLevel, uint64(r.Level))
	e.num(rootStart, r.Page.Start)
	e.num(rootN, r.Page.N)
	e.num(rootTimeBefore, r.Page.TimeBefore)
	e.num(rootTimeAfter, r.Page.TimeAfter)
	e.num(rootArrivalMin, r.Page.ArrivalMin)
	e.num(rootArrivalMax, r.Page.ArrivalMax)
	e.num(rootBytes, r.Page.Bytes)
	e.num(rootIDsMin, uint64(r.Page.IDs.Min))
	e.num(rootIDsMax, uint64(r.Page.IDs.Max))
	e.num(rootObjectsMin, uint64(r.Page.Objects.Min))
	e.num(rootObjectsMax, uint64(r.Page.Objects.Max))
	e.bytes(rootChild, r.Page.Child[:])
	e.num(rootChildBytes, uint64(r.Page.ChildBytes))
	return e.b
}

// field is one decoded field: num for varints, raw for bytes (aliasing the input).
type field struct {
	number protowire.Number
	num    uint64
	raw    []byte
}

// fieldSet says which field numbers of a message are written as bytes, one bit each; the others up to last are
// varints.
type fieldSet struct {
	bytes uint64
	last  protowire.Number
}

func newFieldSet(last protowire.Number, asBytes ...protowire.Number) fieldSet {
	set := fieldSet{last: last}
	for _, number := range asBytes {
		set.bytes |= 1 << number
	}
	return set
}

var (
	headFields = newFieldSet(headCipher, headCipher, headBasin, headStream, headStateID, headConfigID, headStorageClass,
		headTimestamping, headFencing, headToken, headTokenID, headCancelled, headLeaseNode, headLeaseAddress, headRoot,
		headEntry)
	entryFields = newFieldSet(entryData, entryID, entryObject, entryData)
	rootFields  = newFieldSet(rootChildBytes, rootChild)
)

func (set fieldSet) allows(number protowire.Number, typ protowire.Type) bool {
	return number > set.last || (typ == protowire.BytesType) == (set.bytes>>number&1 == 1)
}

// eachField walks a message; fields of types that are never written are refused, unknown numbers are handed on.
func eachField(b []byte, known fieldSet, visit func(f field) error) error {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrBadHead, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{number: number}
		switch typ {
		case protowire.VarintType:
			f.num, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.raw, n = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("%w: field %d has wire type %d", ErrBadHead, number, typ)
		}
		if !known.allows(number, typ) {
			return fmt.Errorf("%w: field %d has wire type %d", ErrBadHead, number, typ)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", ErrBadHead, number, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// small is a number that must fit 32 bits: cut off, it would be another one.
func (f field) small() (uint32, error) {
	if f.num > math.MaxUint32 {
		return 0, fmt.Errorf("%w: field %d is %d", ErrBadHead, f.number, f.num)
	}
	return uint32(f.num), nil
}

// fixed copies a field of exactly len(dst) bytes.
func (f field) fixed(dst []byte) error {
	if len(f.raw) != len(dst) {
		return fmt.Errorf("%w: field %d has %d bytes, not %d", ErrBadHead, f.number, len(f.raw), len(dst))
	}
	copy(dst, f.raw)
	return nil
}

func (f field) id() (segments.EntryID, error) {
	id, err := segments.EntryIDFromBytes(f.raw)
	if err != nil {
		return id, fmt.Errorf("%w: field %d: %w", ErrBadHead, f.number, err)
	}
	return id, nil
}

// DecodeHead reads what AppendHead wrote, with or without the log. The head owns its memory, except that inline
// data aliases b.
func DecodeHead(b []byte) (Head, error) {
	var h Head
	version := uint64(0)
	err := eachField(b, headFields, func(f field) error {
		if f.number == headVersion {
			version = f.num
		}
		return h.setField(f)
	})
	switch {
	case err != nil:
		return Head{}, err
	case version != HeadVersion:
		return Head{}, fmt.Errorf("%w: version %d; this build knows version %d", ErrBadHead, version, HeadVersion)
	case h.State < Active || h.State > Deleted || h.Stream.IsZero():
		return Head{}, fmt.Errorf("%w: no stream or state", ErrBadHead)
	}
	return h, nil
}

func (h *Head) setField(f field) error {
	switch f.number {
	case headV:
		h.V = f.num
	case headBasin:
		return f.fixed(h.Basin[:])
	case headStream:
		return f.fixed(h.Stream[:])
	case headState:
		h.State = State(min(f.num, 255))
	case headStateID:
		return f.fixed(h.StateID[:])
	case headConfigV:
		h.ConfigV = f.num
	case headConfigID:
		return f.fixed(h.ConfigID[:])
	case headStorageClass:
		h.Config.StorageClass = StorageClass(f.raw)
	case headRetention:
		h.Config.RetentionAge = f.num
	case headTimestamping:
		h.Config.Timestamping = TimestampingMode(f.raw)
	case headUncapped:
		h.Config.Uncapped = f.num != 0
	case headDeleteOnEmpty:
		h.Config.DeleteOnEmptyMinAge = f.num
	case headFencing:
		h.Config.Fencing = FencingMode(f.raw)
	case headTail:
		h.Tail = f.num
	case headBase:
		h.Base = f.num
	case headBaseTime:
		h.BaseTime = f.num
	case headInlineBytes:
		h.InlineBytes = f.num
	default:
		return h.setLaterField(f)
	}
	return nil
}

func (h *Head) setLaterField(f field) error {
	switch f.number {
	case headToken:
		h.Token = string(f.raw)
	case headTokenV:
		h.TokenV = f.num
	case headTokenID:
		return f.fixed(h.TokenID[:])
	case headTrim:
		h.Trim = f.num
	case headTrimTime:
		h.TrimTime = f.num
	case headFloor:
		h.Floor = f.num
	case headHorizon:
		h.Horizon = segments.Label(f.num)
	case headCancelled:
		id, err := f.id()
		h.Cancelled = append(h.Cancelled, id)
		return err
	case headLeaseNode:
		h.Lease.Node = string(f.raw)
	case headLeaseAddress:
		h.Lease.Address = string(f.raw)
	case headLeaseTerm:
		h.Lease.Term = f.num
	case headLeaseExpiry:
		h.Lease.Expiry = f.num
	case headCreatedAt:
		h.CreatedAt = f.num
	case headCipher:
		h.Cipher = string(f.raw)
	case headRoot:
		r, err := DecodeRoot(f.raw)
		h.Pages = append(h.Pages, r)
		return err
	case headEntry:
		e, err := DecodeEntry(f.raw)
		h.Log = append(h.Log, e)
		return err
	}
	return nil
}

// DecodeEntry reads what AppendEntry wrote. Inline data aliases b.
func DecodeEntry(b []byte) (segments.Entry, error) {
	var e segments.Entry
	err := eachField(b, entryFields, func(f field) (err error) {
		switch f.number {
		case entryID:
			e.ID, err = f.id()
		case entryN:
			e.N, err = f.small()
		case entrySkip:
			e.Skip, err = f.small()
		case entryMaxTime:
			e.MaxTime = f.num
		case entryArrival:
			e.Arrival = f.num
		case entryBytes:
			e.Bytes = f.num
		case entryObject:
			err = f.fixed(e.Object[:])
		case entryOffset:
			e.Offset = f.num
		case entryLength:
			e.Length, err = f.small()
		case entryData:
			e.Data = f.raw
		}
		return err
	})
	stored := !e.Object.IsZero() || e.Offset != 0 || e.Length != 0
	switch {
	case err != nil:
	case e.N == 0 || e.ID.Object.IsZero():
		err = fmt.Errorf("%w: an entry without records or id", ErrBadHead)
	case stored == (len(e.Data) > 0), stored == e.Inline(), stored && (e.Length == 0 || e.Object.IsZero()):
		err = fmt.Errorf("%w: an entry names not one place", ErrBadHead)
	}
	return e, err
}

// DecodeRoot reads what AppendRoot wrote.
func DecodeRoot(b []byte) (Root, error) {
	var r Root
	p := &r.Page
	err := eachField(b, rootFields, func(f field) (err error) {
		switch f.number {
		case rootLevel:
			r.Level = uint8(min(f.num, 255))
		case rootStart:
			p.Start = f.num
		case rootN:
			p.N = f.num
		case rootTimeBefore:
			p.TimeBefore = f.num
		case rootTimeAfter:
			p.TimeAfter = f.num
		case rootArrivalMin:
			p.ArrivalMin = f.num
		case rootArrivalMax:
			p.ArrivalMax = f.num
		case rootBytes:
			p.Bytes = f.num
		case rootIDsMin:
			p.IDs.Min = segments.Label(f.num)
		case rootIDsMax:
			p.IDs.Max = segments.Label(f.num)
		case rootObjectsMin:
			p.Objects.Min = segments.Label(f.num)
		case rootObjectsMax:
			p.Objects.Max = segments.Label(f.num)
		case rootChild:
			err = f.fixed(p.Child[:])
		case rootChildBytes:
			p.ChildBytes, err = f.small()
		}
		return err
	})
	if err == nil && (r.Level >= segments.PageLevels || p.N == 0 || p.Child.IsZero()) {
		err = fmt.Errorf("%w: a root names no page", ErrBadHead)
	}
	return r, err
}
