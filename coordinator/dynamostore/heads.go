package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Create implements coordinator.Heads.
func (s *Store) Create(ctx context.Context, h coordinator.Head) error {
	err := s.write(ctx, func(ctx context.Context) error {
		_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: s.table, Item: headItem(&h),
			ConditionExpression:      aws.String("attribute_not_exists(#pk)"),
			ExpressionAttributeNames: map[string]string{"#pk": attrPartition},
		}, once)
		return err
	})
	var failed *errCondition
	switch {
	case err == nil:
		s.seen.put(&h)
		return nil
	case errors.As(err, &failed):
		return coordinator.ErrExists
	}
	return fmt.Errorf("create head %s: %w", h.Stream, err)
}

// Load implements coordinator.Heads.
func (s *Store) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	item, err := s.get(ctx, headKey(id))
	switch {
	case err != nil:
		return coordinator.Head{}, fmt.Errorf("load head %s: %w", id, err)
	case item == nil:
		return coordinator.Head{}, coordinator.ErrNotFound
	}
	h, err := decodeHead(item)
	if err != nil {
		return coordinator.Head{}, fmt.Errorf("load head %s: %w", id, err)
	}
	s.seen.put(&h)
	return h, nil
}

// get is a strong read; nil without an error is the service's answer that there is no such item.
func (s *Store) get(ctx context.Context, key attrs) (attrs, error) {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: s.table, Key: key, ConsistentRead: aws.Bool(true),
	}, patiently)
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// Commit implements coordinator.Heads.
func (s *Store) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return s.transition(ctx, id,
		func(h coordinator.Head) (coordinator.Head, error) { return coordinator.Apply(h, c) },
		func(k known) *update { return commitUpdate(c, k) })
}

// Splice implements coordinator.Heads.
func (s *Store) Splice(ctx context.Context, id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	pure := func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplySplice(h, p) }
	if lengthens(p) {
		return s.rewrite(ctx, id, pure)
	}
	return s.transition(ctx, id, pure, func(known) *update { return spliceUpdate(p) })
}

// Change implements coordinator.Heads.
func (s *Store) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return s.transition(ctx, id,
		func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplyChange(h, c) },
		func(k known) *update { return changeUpdate(c, k) })
}

type pureFunction func(coordinator.Head) (coordinator.Head, error)

// maxCases bounds how often an update is stated anew because the head was in another case than the one stated.
const maxCases = 8

// transition sends an update. If its condition fails, the pure function on the head that failed it names the reason;
// if it finds none, the update was stated in the wrong case, and is stated again by that head. The failed one is
// definite, so this never sends what may have been applied.
func (s *Store) transition(ctx context.Context, id segments.StreamID, pure pureFunction, state func(known) *update) (coordinator.Head, error) {
	k := s.seen.get(id)
	for range maxCases {
		h, err := s.update(ctx, id, state(k))
		var failed *errCondition
		if !errors.As(err, &failed) {
			return h, err
		}
		old, err := s.failedHead(ctx, id, failed)
		if err != nil {
			return coordinator.Head{}, err
		}
		if _, err := pure(old); err != nil {
			return coordinator.Head{}, err
		}
		k = knownOf(&old)
	}
	return coordinator.Head{}, fmt.Errorf("update head %s: it changes too fast: %w", id, coordinator.ErrNotApplied)
}

// rewrite is for the splices that no update can state on the log alone: it reads, and replaces the log at the version
// that it read. It loses to appends, which is why compaction merges entries and does not split them.
func (s *Store) rewrite(ctx context.Context, id segments.StreamID, pure pureFunction) (coordinator.Head, error) {
	for range maxCases {
		old, err := s.Load(ctx, id)
		if err != nil {
			return coordinator.Head{}, notApplied(err)
		}
		next, err := pure(old)
		if err != nil {
			return coordinator.Head{}, err
		}
		h, err := s.update(ctx, id, rewriteUpdate(old.V, &next))
		var failed *errCondition
		if !errors.As(err, &failed) {
			return h, err
		}
	}
	return coordinator.Head{}, fmt.Errorf("update head %s: it changes too fast: %w", id, coordinator.ErrNotApplied)
}

// update makes one UpdateItem and returns the head after it. Errors are those of write.
func (s *Store) update(ctx context.Context, id segments.StreamID, u *update) (coordinator.Head, error) {
	var h coordinator.Head
	var decodeErr error
	err := s.write(ctx, func(ctx context.Context) error {
		out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: s.table, Key: headKey(id),
			UpdateExpression:                    aws.String(u.expression()),
			ConditionExpression:                 aws.String(u.conditionExpression()),
			ExpressionAttributeNames:            u.names,
			ExpressionAttributeValues:           u.values,
			ReturnValues:                        types.ReturnValueAllNew,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, once)
		if err == nil {
			h, decodeErr = decodeHead(out.Attributes)
		}
		return err
	})
	if err == nil && decodeErr != nil {
		// It was applied; what came back cannot be believed, so the caller has to look.
		err = fmt.Errorf("%w: %w", coordinator.ErrUnknown, decodeErr)
	}
	if err != nil {
		return coordinator.Head{}, fmt.Errorf("update head %s: %w", id, err)
	}
	s.seen.put(&h)
	return h, nil
}

// failedHead is the head that failed a condition. The service returns it with the failure; where one does not, or there
// is none, a strong read decides.
func (s *Store) failedHead(ctx context.Context, id segments.StreamID, failed *errCondition) (coordinator.Head, error) {
	if len(failed.item) == 0 {
		h, err := s.Load(ctx, id)
		return h, notApplied(err)
	}
	h, err := decodeHead(failed.item)
	if err != nil {
		return h, notApplied(fmt.Errorf("update head %s: %w", id, err))
	}
	s.seen.put(&h)
	return h, nil
}

// notApplied marks the error of a read that followed a failed condition: the write is definitely not applied, whatever
// became of the read.
func notApplied(err error) error {
	if err == nil || errors.Is(err, coordinator.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", coordinator.ErrNotApplied, err)
}
