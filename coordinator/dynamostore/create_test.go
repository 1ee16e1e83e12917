package dynamostore

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// mustPut writes an item as it is.
func mustPut(t *testing.T, s *Store, item attrs) {
	t.Helper()
	if _, err := s.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: s.table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// foreignTable makes a table with keys of one's own.
func foreignTable(t *testing.T, partition, sort types.ScalarAttributeType, names ...string) Options {
	t.Helper()
	o := options(emulator(t), tableName())
	s := newStore(o)
	in := &dynamodb.CreateTableInput{TableName: s.table, BillingMode: types.BillingModePayPerRequest}
	for i, name := range names {
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{
			AttributeName: aws.String(name), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i],
		})
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: []types.ScalarAttributeType{partition, sort}[i],
		})
	}
	if _, err := s.db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := s.whenActive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCreateTable(t *testing.T) {
	t.Parallel()
	o := options(emulator(t), tableName())
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrNoTable) {
		t.Errorf("Open before: %v", err)
	}
	for range 2 { // it may be repeated
		if err := CreateTable(t.Context(), o, TableOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := open(t, o), open(t, o)
	if first.ID() != second.ID() || first.ID() == newStoreAt(t, emulator(t)).ID() {
		t.Errorf("the table's id is not its own")
	}
	if _, err := first.Put(t.Context(), coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}}, 0); err != nil {
		t.Fatal(err)
	}
	if err := CreateTable(t.Context(), o, TableOptions{}); err != nil {
		t.Errorf("CreateTable on a table in use: %v", err)
	}
}

// A table that a deployment tool made has the right keys and no marker.
func TestCreateTableTakesAnEmptyOne(t *testing.T) {
	t.Parallel()
	o := foreignTable(t, types.ScalarAttributeTypeS, types.ScalarAttributeTypeB, attrPartition, attrSort)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrForeign) {
		t.Errorf("Open before: %v", err)
	}
	if err := CreateTable(t.Context(), o, TableOptions{}); err != nil {
		t.Fatal(err)
	}
	open(t, o)
}

func TestForeignTables(t *testing.T) {
	t.Parallel()
	const s, b, n = types.ScalarAttributeTypeS, types.ScalarAttributeTypeB, types.ScalarAttributeTypeN
	used := foreignTable(t, s, b, attrPartition, attrSort)
	mustPut(t, newStore(used), attrs{attrPartition: text("customer"), attrSort: blob([]byte("1"))})
	for name, o := range map[string]Options{
		"other names":      foreignTable(t, s, b, "id", "at"),
		"other types":      foreignTable(t, s, n, attrPartition, attrSort),
		"one key":          foreignTable(t, s, b, attrPartition),
		"swapped":          foreignTable(t, b, s, attrSort, attrPartition),
		"something in it":  used,
		"a marker of text": markedWith(t, text("1")),
	} {
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrForeign) && !errors.Is(err, ErrCorrupt) {
			t.Errorf("Open, %s: %v", name, err)
		}
		if err := CreateTable(t.Context(), o, TableOptions{}); !errors.Is(err, ErrForeign) && !errors.Is(err, ErrCorrupt) {
			t.Errorf("CreateTable, %s: %v", name, err)
		}
	}
}

func markedWith(t *testing.T, id types.AttributeValue) Options {
	t.Helper()
	o := foreignTable(t, types.ScalarAttributeTypeS, types.ScalarAttributeTypeB, attrPartition, attrSort)
	item := markerKey()
	item[attrFormat], item[attrID] = number(format), id
	mustPut(t, newStore(o), item)
	return o
}

// The emulator knows none of a table's options, so the proxy answers for it.
func TestTableOptions(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	early := 2
	p.failing(func(r request) fault {
		switch {
		case r.op == "UpdateContinuousBackups" && early > 0:
			early--
			return refuses(400, "ContinuousBackupsUnavailableException")
		case r.op == "UpdateContinuousBackups" || r.op == "UpdateTable":
			return answers("{}")
		}
		return nil
	})
	name := tableName()
	if err := CreateTable(t.Context(), options(p.URL, name), TableOptions{}); err != nil {
		t.Fatal(err)
	}
	p.take()
	all := TableOptions{PointInTimeRecovery: true, DeletionProtection: true}
	if err := CreateTable(t.Context(), options(p.URL, name), all); err != nil {
		t.Fatal(err)
	}
	var protected, recoverable bool
	for _, r := range p.take() {
		protected = protected || r.params["DeletionProtectionEnabled"] == true
		if spec, ok := r.params["PointInTimeRecoverySpecification"].(map[string]any); ok {
			recoverable = spec["PointInTimeRecoveryEnabled"] == true
		}
	}
	if !protected || !recoverable || early > 0 {
		t.Errorf("asked for deletion protection %v, for recovery %v", protected, recoverable)
	}
}
