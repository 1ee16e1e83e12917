package dynamostore

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// List implements coordinator.Table. One query answers up to a megabyte, so a long listing takes several; each of them
// is strong, but they are not one snapshot.
func (s *Store) List(ctx context.Context, part, prefix, after string, limit int) ([]coordinator.Row, error) {
	if err := coordinator.ValidatePart(part); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	if after > prefix && !strings.HasPrefix(after, prefix) || len(prefix) > coordinator.MaxSortBytes {
		// Every key with the prefix is less than after, or none can be.
		return nil, ctx.Err()
	}
	after = after[:min(len(after), coordinator.MaxSortBytes)] // no key lies between the two
	in := s.query(part, prefix)
	if after != "" && strings.HasPrefix(after, prefix) {
		// The start may be any key in the range, there or not; the answer begins behind it.
		in.ExclusiveStartKey = rowKey(coordinator.Key{Part: part, Sort: after})
	}
	var rows []coordinator.Row
	for len(rows) < limit {
		in.Limit = aws.Int32(int32(min(limit-len(rows), 10_000)))
		out, err := s.db.Query(ctx, in, patiently)
		if err != nil {
			return nil, fmt.Errorf("list rows: %w", err)
		}
		for _, item := range out.Items {
			row, err := decodeRow(item)
			if err != nil {
				return nil, fmt.Errorf("list rows: %w", err)
			}
			rows = append(rows, row)
		}
		if len(out.LastEvaluatedKey) == 0 {
			break
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	return rows, nil
}

// query asks for the rows of a part whose sort keys start with prefix. The range is stated by its ends: begins_with
// says the same, but an emulator compares texts with it where there are bytes.
func (s *Store) query(part, prefix string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPartition},
		ExpressionAttributeValues: attrs{":pk": text(rowSpace + part)},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk BETWEEN :first AND :last")
		in.ExpressionAttributeNames["#sk"] = attrSort
		in.ExpressionAttributeValues[":first"] = blob([]byte(prefix))
		in.ExpressionAttributeValues[":last"] = blob(lastWith(prefix))
	}
	return in
}

// lastWith is the largest sort key that starts with prefix.
func lastWith(prefix string) []byte {
	return append([]byte(prefix), bytes.Repeat([]byte{0xff}, coordinator.MaxSortBytes-len(prefix))...)
}
