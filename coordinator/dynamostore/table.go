package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// The attributes of a row beside its key: part and sort key.
const (
	attrValue   = "val"
	attrVersion = "ver"
	attrRowID   = "id"
)

func rowKey(k coordinator.Key) attrs { return key(rowSpace+k.Part, []byte(k.Sort)) }

func rowItem(r *coordinator.Row) attrs {
	a := rowKey(r.Key)
	a[attrFormat], a[attrVersion] = number(format), number(r.Version)
	a.setBytes(attrValue, r.Value)
	a.setOp(attrRowID, r.ID)
	return a
}

// decodeRow reads an item that rowItem wrote. Errors are ErrVersion and ErrCorrupt.
func decodeRow(a attrs) (coordinator.Row, error) {
	d := decode(a)
	r := coordinator.Row{Value: d.bytes(attrValue), Version: d.num(attrVersion), ID: d.op(attrRowID)}
	part := d.text(attrPartition)
	if len(part) <= len(rowSpace) || part[:len(rowSpace)] != rowSpace {
		d.fail(attrPartition, "names no part")
	} else {
		r.Key.Part = part[len(rowSpace):]
	}
	if r.Key.Sort = string(d.bytes(attrSort)); r.Key.Sort == "" {
		d.fail(attrSort, "is missing")
	}
	if r.Version == 0 {
		d.fail(attrVersion, "is 0")
	}
	if d.err != nil {
		return coordinator.Row{}, d.err
	}
	return r, nil
}

// Get implements coordinator.Table.
func (s *Store) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	if err := key.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	row, there, err := s.row(ctx, key)
	switch {
	case err != nil:
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	case !there:
		return coordinator.Row{}, coordinator.ErrNotFound
	}
	return row, nil
}

func (s *Store) row(ctx context.Context, key coordinator.Key) (row coordinator.Row, there bool, err error) {
	item, err := s.get(ctx, rowKey(key))
	if err != nil || item == nil {
		return row, false, err
	}
	row, err = decodeRow(item)
	return row, err == nil, err
}

// Put implements coordinator.Table.
func (s *Store) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	if err := row.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	row.Version = ifVersion + 1
	row.Value = bytes.Clone(row.Value)
	c := ifVersionIs(ifVersion)
	put := &dynamodb.PutItemInput{
		TableName: s.table, Item: rowItem(&row), ConditionExpression: &c.text,
		ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	err := s.versioned(ctx, row.Key, ifVersion, func(ctx context.Context) error {
		_, err := s.db.PutItem(ctx, put, once)
		return err
	})
	if err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	return row, nil
}

// Delete implements coordinator.Table.
func (s *Store) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	if ifVersion == 0 {
		// No row has it, so there is nothing to write: only the reason is missing.
		found, there, err := s.row(ctx, key)
		switch {
		case err != nil:
			return fmt.Errorf("delete row: %w", notApplied(err))
		case !there:
			return coordinator.ErrNotFound
		}
		return &coordinator.Conflict{Found: found}
	}
	c := ifVersionIs(ifVersion)
	err := s.versioned(ctx, key, ifVersion, func(ctx context.Context) error {
		_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: s.table, Key: rowKey(key), ConditionExpression: &c.text,
			ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, once)
		return err
	})
	var conflict *coordinator.Conflict
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict) && conflict.Found.Version == 0:
		return coordinator.ErrNotFound
	}
	return fmt.Errorf("delete row: %w", err)
}

type condition struct {
	text   string
	names  map[string]string
	values attrs
}

// ifVersionIs holds where the row has that version, or for 0 where there is none.
func ifVersionIs(version uint64) condition {
	if version == 0 {
		return condition{text: "attribute_not_exists(#pk)", names: map[string]string{"#pk": attrPartition}}
	}
	return condition{
		text:   "#v = :v AND #f = :f",
		names:  map[string]string{"#v": attrVersion, "#f": attrFormat},
		values: attrs{":v": number(version), ":f": number(format)},
	}
}

// versioned sends a write on a row until it is decided. If the condition failed, and the service does not say which row
// failed it, a strong read does; if that finds the version that the write was for, the write goes again.
func (s *Store) versioned(ctx context.Context, key coordinator.Key, ifVersion uint64, send func(context.Context) error) error {
	for range maxCases {
		err := s.write(ctx, send)
		var failed *errCondition
		if !errors.As(err, &failed) {
			return err
		}
		found, err := s.foundRow(ctx, key, failed)
		switch {
		case err != nil:
			return notApplied(err)
		case found.Version != ifVersion:
			return &coordinator.Conflict{Found: found}
		}
	}
	return fmt.Errorf("it changes too fast: %w", coordinator.ErrNotApplied)
}

func (s *Store) foundRow(ctx context.Context, key coordinator.Key, failed *errCondition) (coordinator.Row, error) {
	if len(failed.item) > 0 {
		return decodeRow(failed.item)
	}
	row, _, err := s.row(ctx, key)
	return row, err
}
