package dynamostore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update is one UpdateItem in the making: clauses, conditions, and the names and values they use. Every attribute
// goes by a #name, since many short names are reserved words.
type update struct {
	names                      map[string]string
	values                     attrs
	sets, removes, adds, takes []string
	conditions                 []string
}

// newUpdate begins an update of a head that has the known format: it counts v.
func newUpdate() *update {
	u := &update{names: map[string]string{}, values: attrs{}}
	u.plus(attrV, 1)
	u.require(attrFormat, "=", number(format))
	return u
}

func (u *update) name(attr string) string {
	u.names["#"+attr] = attr
	return "#" + attr
}

func (u *update) value(v types.AttributeValue) string {
	name := ":" + strconv.Itoa(len(u.values))
	u.values[name] = v
	return name
}

// element is the path of the i-th entry of the log.
func (u *update) element(i int) string { return u.name(attrLog) + "[" + strconv.Itoa(i) + "]" }

func (u *update) set(attr string, v types.AttributeValue) {
	u.sets = append(u.sets, u.name(attr)+" = "+u.value(v))
}

// setBytes sets an attribute that is absent when empty.
func (u *update) setBytes(attr string, b []byte) {
	if len(b) == 0 {
		u.remove(u.name(attr))
		return
	}
	u.set(attr, blob(b))
}

func (u *update) setText(attr, s string) {
	if s == "" {
		u.remove(u.name(attr))
		return
	}
	u.set(attr, text(s))
}

func (u *update) remove(path string) { u.removes = append(u.removes, path) }

func (u *update) plus(attr string, n uint64) { u.setFrom(attr, attr, "+", n) }

// setFrom sets an attribute to the sum or difference of another and n. On the right there is always the item as it
// was before the update.
func (u *update) setFrom(attr, from, sign string, n uint64) {
	if n == 0 && attr == from {
		return
	}
	u.sets = append(u.sets, u.name(attr)+" = "+u.name(from)+" "+sign+" "+u.value(number(n)))
}

func (u *update) require(attr, op string, v types.AttributeValue) {
	u.condition("%s %s %s", u.name(attr), op, u.value(v))
}

// requireBytes demands that an attribute which is absent when empty is b.
func (u *update) requireBytes(attr string, b []byte) {
	if len(b) == 0 {
		u.condition("attribute_not_exists(%s)", u.name(attr))
		return
	}
	u.require(attr, "=", blob(b))
}

func (u *update) requireText(attr, s string) {
	if s == "" {
		u.condition("attribute_not_exists(%s)", u.name(attr))
		return
	}
	u.require(attr, "=", text(s))
}

func (u *update) condition(format string, args ...any) {
	u.conditions = append(u.conditions, fmt.Sprintf(format, args...))
}

// expression is the text of the update.
func (u *update) expression() string {
	var parts []string
	for _, clause := range []struct {
		keyword string
		of      []string
	}{{"SET", u.sets}, {"REMOVE", u.removes}, {"ADD", u.adds}, {"DELETE", u.takes}} {
		if len(clause.of) > 0 {
			parts = append(parts, clause.keyword+" "+strings.Join(clause.of, ", "))
		}
	}
	return strings.Join(parts, " ")
}

func (u *update) conditionExpression() string { return strings.Join(u.conditions, " AND ") }
