package dynamostore

import (
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// Nothing that was tested on an emulator counts, unless its updates are atomic: of 50 that race, one wins.
func TestEmulatorIsAtomic(t *testing.T) {
	t.Parallel()
	s := newStoreAt(t, emulator(t))
	h := storetest.NewHead()
	mustCreate(t, t.Context(), s, h)
	for round := range uint64(10) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		won, refused := 0, 0
		start := make(chan struct{})
		for range 50 {
			c := plainCommit(1)
			c.Match = &round
			wg.Go(func() {
				<-start
				_, err := s.Commit(t.Context(), h.Stream, c)
				reason, _ := storetest.RefusedFor(err)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if reason != 0 {
					refused++
				}
			})
		}
		close(start)
		wg.Wait()
		if won != 1 || refused != 49 {
			t.Fatalf("round %d: %d won and %d were refused: this emulator is refused", round, won, refused)
		}
	}
}

// What the emulator lacks is named in the output, so that nobody takes a run for more than it shows.
func TestWhatTheEmulatorLacks(t *testing.T) {
	t.Parallel()
	s := newStoreAt(t, emulator(t))
	ctx, h := t.Context(), storetest.NewHead()
	mustCreate(t, ctx, s, h)
	lacks := func(what string, lacking bool, instead string) {
		if lacking {
			t.Logf("%s lacks %s; %s", endpointVariable, what, instead)
		} else {
			t.Logf("%s has %s", endpointVariable, what)
		}
	}
	item := headKey(h.Stream)
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: s.table, Key: item, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		UpdateExpression: aws.String("REMOVE x"), ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, once)
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	lacks("the old item on a failed condition", len(failed.Item) == 0,
		"a strong read replaces it, and the suite runs again with a proxy that adds it")
	_, err = s.db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName: s.table,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: aws.Bool(true),
		},
	}, once)
	lacks("point-in-time recovery", err != nil, "a proxy answers for it")
	_, err = s.db.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: s.table, DeletionProtectionEnabled: aws.Bool(true)}, once)
	lacks("deletion protection", err != nil, "a proxy answers for it")
	lacks("throttling, conflicts and server errors", true, "a proxy injects them")
}
