package dynamostore

import (
	"encoding/hex"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// The attributes of a head, named as in the protocol. Names are part of an item's size, and most are read by people
// only when something is wrong.
const (
	attrV         = "v"
	attrBasin     = "basin"
	attrState     = "st"
	attrStateID   = "stid"
	attrConfig    = "cfg" // map, see configMap
	attrConfigV   = "cfgv"
	attrConfigID  = "cfgid"
	attrExclusive = "xf" // of the config, for conditions
	attrTail      = "tail"
	attrLog       = "log" // list of binaries, each coordinator.AppendEntry
	attrBase      = "bs"
	attrBaseTime  = "bts"
	attrPages     = "pages" // one binary, see appendRoots
	attrInline    = "lb"
	attrToken     = "token" // binary, so that any bytes come back as they were
	attrTokenV    = "tokv"
	attrTokenID   = "tokid"
	attrTrim      = "tr"
	attrTrimTime  = "trt"
	attrFloor     = "fl"
	attrHorizon   = "hz"
	attrCancelled = "can" // set of texts, see cancelledSet
	attrNode      = "ln"
	attrAddress   = "la"
	attrTerm      = "lt"
	attrExpiry    = "le"
	attrCreatedAt = "at"
	attrCipher    = "ci"
)

func headKey(id segments.StreamID) attrs { return key(headSpace+id.String(), headSort) }

// headItem is the whole item of a head.
func headItem(h *coordinator.Head) attrs {
	a := headKey(h.Stream)
	for name, v := range map[string]uint64{
		attrFormat: format, attrV: h.V, attrState: uint64(h.State), attrConfigV: h.ConfigV, attrTail: h.Tail,
		attrBase: h.Base, attrBaseTime: h.BaseTime, attrInline: h.InlineBytes, attrTokenV: h.TokenV, attrTrim: h.Trim,
		attrTrimTime: h.TrimTime, attrFloor: h.Floor, attrHorizon: uint64(h.Horizon), attrTerm: h.Lease.Term,
		attrExpiry: h.Lease.Expiry, attrCreatedAt: h.CreatedAt,
	} {
		a[name] = number(v)
	}
	a.setBytes(attrBasin, h.Basin[:])
	a.setOp(attrStateID, h.StateID)
	a[attrConfig], a[attrExclusive] = configMap(&h.Config), boolean(h.Exclusive())
	a.setOp(attrConfigID, h.ConfigID)
	a[attrLog] = entryList(h.Log)
	a.setBytes(attrPages, appendRoots(nil, h.Pages))
	a.setBytes(attrToken, []byte(h.Token))
	a.setOp(attrTokenID, h.TokenID)
	if len(h.Cancelled) > 0 {
		a[attrCancelled] = cancelledSet(h.Cancelled)
	}
	a.setText(attrNode, h.Lease.Node)
	a.setText(attrAddress, h.Lease.Address)
	a.setText(attrCipher, h.Cipher)
	return a
}

// decodeHead reads an item that headItem or an update wrote. Errors are ErrVersion and ErrCorrupt.
func decodeHead(a attrs) (coordinator.Head, error) {
	d := decode(a)
	h := coordinator.Head{
		V: d.num(attrV), State: coordinator.State(min(d.num(attrState), 255)), StateID: d.op(attrStateID),
		Config: d.config(), ConfigV: d.num(attrConfigV), ConfigID: d.op(attrConfigID),
		Tail: d.num(attrTail), Log: d.log(), Base: d.num(attrBase), BaseTime: d.num(attrBaseTime), Pages: d.pages(),
		InlineBytes: d.num(attrInline),
		Token:       string(d.bytes(attrToken)), TokenV: d.num(attrTokenV), TokenID: d.op(attrTokenID),
		Trim: d.num(attrTrim), TrimTime: d.num(attrTrimTime), Floor: d.num(attrFloor),
		Horizon: segments.Label(d.num(attrHorizon)), Cancelled: d.cancelled(),
		Lease: coordinator.Lease{
			Node: d.text(attrNode), Address: d.text(attrAddress), Term: d.num(attrTerm), Expiry: d.num(attrExpiry),
		},
		CreatedAt: d.num(attrCreatedAt), Cipher: d.text(attrCipher),
	}
	d.id(attrBasin, (*[16]byte)(&h.Basin))
	d.stream(&h.Stream)
	if h.State < coordinator.Active || h.State > coordinator.Deleted {
		d.fail(attrState, "is no state")
	}
	if d.boolean(attrExclusive) != h.Exclusive() {
		d.fail(attrExclusive, "is not as the config says")
	}
	if d.err != nil {
		return coordinator.Head{}, d.err
	}
	return h, nil
}

func (d *decoder) stream(id *segments.StreamID) {
	name := d.text(attrPartition)
	parsed, err := uuid.Parse(name[min(len(headSpace), len(name)):])
	if err != nil || name != headSpace+parsed.String() {
		d.fail(attrPartition, "names no stream")
	}
	*id = segments.StreamID(parsed)
}

// entryList is a log, or a part of one.
func entryList(entries []segments.Entry) types.AttributeValue {
	list := make([]types.AttributeValue, len(entries))
	for i := range entries {
		list[i] = entryValue(&entries[i])
	}
	return &types.AttributeValueMemberL{Value: list}
}

// entryValue is one element of the log. The same entry gives the same bytes, which is what a splice compares.
func entryValue(e *segments.Entry) types.AttributeValue { return blob(coordinator.AppendEntry(nil, e)) }

func (d *decoder) log() []segments.Entry {
	list, ok := required[*types.AttributeValueMemberL](d, attrLog)
	if !ok || len(list.Value) == 0 {
		return nil
	}
	log := make([]segments.Entry, len(list.Value))
	for i, v := range list.Value {
		b, ok := v.(*types.AttributeValueMemberB)
		if !ok {
			d.fail(attrLog, fmt.Sprintf("holds a %T", v))
			return nil
		}
		var err error
		if log[i], err = coordinator.DecodeEntry(b.Value); err != nil {
			d.fail(attrLog, err.Error())
			return nil
		}
	}
	return log
}

// appendRoots encodes all roots into one value: a condition on a list would have to be one on each element and on
// their number. Each root is prefixed with its length.
func appendRoots(dst []byte, roots []coordinator.Root) []byte {
	for i := range roots {
		dst = protowire.AppendBytes(dst, coordinator.AppendRoot(nil, &roots[i]))
	}
	return dst
}

func (d *decoder) pages() (roots []coordinator.Root) {
	for b := d.bytes(attrPages); len(b) > 0; {
		raw, n := protowire.ConsumeBytes(b)
		if n < 0 {
			d.fail(attrPages, "is cut short")
			return nil
		}
		root, err := coordinator.DecodeRoot(raw)
		if err != nil {
			d.fail(attrPages, err.Error())
			return nil
		}
		roots, b = append(roots, root), b[n:]
	}
	return roots
}

// cancelledSet is a set of ids as hexadecimal text: an emulator compares texts exactly, but not the members of binary
// sets.
func cancelledSet(ids []segments.EntryID) *types.AttributeValueMemberSS {
	set := make([]string, 0, len(ids))
	seen := map[segments.EntryID]bool{} // a set literal with an element twice is refused
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			set = append(set, cancelledText(id))
		}
	}
	return &types.AttributeValueMemberSS{Value: set}
}

func cancelledText(id segments.EntryID) string { return hex.EncodeToString(id.Bytes()) }

func (d *decoder) cancelled() (ids []segments.EntryID) {
	set, ok := optional[*types.AttributeValueMemberSS](d, attrCancelled)
	if !ok {
		return nil
	}
	for _, s := range set.Value {
		b, err := hex.DecodeString(s)
		id, idErr := segments.EntryIDFromBytes(b)
		if err != nil || idErr != nil || s != cancelledText(id) {
			d.fail(attrCancelled, "holds what is no id")
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}
