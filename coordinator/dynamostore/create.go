package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"
)

// TableOptions are what a new table may have beside its keys.
type TableOptions struct {
	// PointInTimeRecovery turns continuous backups on. A table restored from one needs collection re-armed by hand.
	PointInTimeRecovery bool
	// DeletionProtection has the service refuse to delete the table until it is turned off.
	DeletionProtection bool
}

// attrID is the marker's: the id of the table's contents.
const attrID = "id"

func markerKey() attrs { return key(markerName, headSort) }

// CreateTable makes the table, billed by request, waits until it can be used, and marks it as ours. A table that is
// there already is taken if it is ours, or empty with the right keys, such as one that a deployment tool has made; an
// option that it was made without is turned on. So a creation cut short is repeated. Errors are ErrForeign,
// ErrVersion, and those of the service.
func CreateTable(ctx context.Context, o Options, t TableOptions) error {
	s := newStore(o)
	defer s.Close()
	if err := s.createTable(ctx, t); err != nil {
		return fmt.Errorf("create table %s: %w", o.Table, err)
	}
	return nil
}

func (s *Store) createTable(ctx context.Context, t TableOptions) error {
	_, err := s.db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: s.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema: tableKeys,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrPartition), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrSort), AttributeType: types.ScalarAttributeTypeB},
		},
		DeletionProtectionEnabled: protection(t.DeletionProtection),
	}, once)
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	made, err := s.whenActive(ctx)
	if err != nil {
		return err
	}
	if err := checkKeys(made); err != nil {
		return err
	}
	if err := s.mark(ctx); err != nil {
		return err
	}
	return s.turnOn(ctx, t, made)
}

var tableKeys = []types.KeySchemaElement{
	{AttributeName: aws.String(attrPartition), KeyType: types.KeyTypeHash},
	{AttributeName: aws.String(attrSort), KeyType: types.KeyTypeRange},
}

// protection leaves the parameter out when it is not asked for, since not every emulator knows it.
func protection(on bool) *bool {
	if !on {
		return nil
	}
	return &on
}

// activePoll is how often a table that is not ready is asked again.
const activePoll = 200 * time.Millisecond

// whenActive waits until the table can be used.
func (s *Store) whenActive(ctx context.Context) (*types.TableDescription, error) {
	for {
		out, err := s.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: s.table}, patiently)
		var missing *types.ResourceNotFoundException
		switch {
		case errors.As(err, &missing): // it was asked for just now, and is not everywhere yet
		case err != nil:
			return nil, err
		case out.Table.TableStatus == types.TableStatusActive || out.Table.TableStatus == types.TableStatusUpdating:
			return out.Table, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(activePoll):
		return nil
	}
}

func checkKeys(t *types.TableDescription) error {
	typeOf := map[string]types.ScalarAttributeType{}
	for _, d := range t.AttributeDefinitions {
		typeOf[aws.ToString(d.AttributeName)] = d.AttributeType
	}
	if len(t.KeySchema) != len(tableKeys) || typeOf[attrPartition] != types.ScalarAttributeTypeS ||
		typeOf[attrSort] != types.ScalarAttributeTypeB {
		return fmt.Errorf("%w: its keys are not %s (S) and %s (B)", ErrForeign, attrPartition, attrSort)
	}
	for i, k := range t.KeySchema {
		if aws.ToString(k.AttributeName) != *tableKeys[i].AttributeName || k.KeyType != tableKeys[i].KeyType {
			return fmt.Errorf("%w: its keys are not %s and %s", ErrForeign, attrPartition, attrSort)
		}
	}
	return nil
}

// mark writes the marker, if it is not there and the table is empty.
func (s *Store) mark(ctx context.Context) error {
	if _, err := s.marker(ctx); !errors.Is(err, ErrForeign) {
		return err
	}
	found, err := s.db.Scan(ctx, &dynamodb.ScanInput{
		TableName: s.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(1),
	}, patiently)
	switch {
	case err != nil:
		return err
	case len(found.Items) > 0:
		return fmt.Errorf("%w: it holds items of something else", ErrForeign)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	item := markerKey()
	item[attrFormat], item[attrID] = number(format), blob(id[:])
	err = s.write(ctx, func(ctx context.Context) error {
		_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: s.table, Item: item,
			ConditionExpression:      aws.String("attribute_not_exists(#pk)"),
			ExpressionAttributeNames: map[string]string{"#pk": attrPartition},
		}, once)
		return err
	})
	var failed *errCondition
	if errors.As(err, &failed) {
		_, err = s.marker(ctx) // another process was first
	}
	return err
}

// marker reads the id of the table's contents.
func (s *Store) marker(ctx context.Context) (id uuid.UUID, err error) {
	item, err := s.get(ctx, markerKey())
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case errors.As(err, &missing):
		return id, fmt.Errorf("%w: %w", ErrNoTable, err)
	case errors.As(err, &api) && api.ErrorCode() == "ValidationException":
		// The service compares the key that is asked for with the table's.
		return id, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return id, err
	case item == nil:
		return id, fmt.Errorf("%w: it has no marker; tailrace admin create-table sets an empty table up", ErrForeign)
	}
	d := decode(item)
	d.id(attrID, (*[16]byte)(&id))
	if d.err == nil && id == uuid.Nil {
		d.fail(attrID, "is missing")
	}
	return id, d.err
}

// turnOn sets what the table, as it was made, has not.
func (s *Store) turnOn(ctx context.Context, t TableOptions, made *types.TableDescription) error {
	if t.DeletionProtection && !aws.ToBool(made.DeletionProtectionEnabled) {
		_, err := s.db.UpdateTable(ctx, &dynamodb.UpdateTableInput{
			TableName: s.table, DeletionProtectionEnabled: aws.Bool(true),
		}, once)
		if err != nil {
			return fmt.Errorf("turn on deletion protection: %w", err)
		}
	}
	if t.PointInTimeRecovery {
		if err := s.turnOnRecovery(ctx); err != nil {
			return fmt.Errorf("turn on point-in-time recovery: %w", err)
		}
	}
	return nil
}

// turnOnRecovery waits until the service can: a table that was made a moment ago has no backups to be turned on.
func (s *Store) turnOnRecovery(ctx context.Context) error {
	for {
		_, err := s.db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
			TableName: s.table,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
				PointInTimeRecoveryEnabled: aws.Bool(true),
			},
		}, once)
		var early *types.ContinuousBackupsUnavailableException
		if !errors.As(err, &early) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}
