package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tailrace-streams/tailrace/coordinator"
)

func newClient(o *Options, client *httpClient) *dynamodb.Client {
	return dynamodb.NewFromConfig(o.AWS, func(d *dynamodb.Options) {
		d.HTTPClient = client
		d.ClientLogMode = 0 // it could show request bodies
		d.Logger = logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
			o.Log.Debug().Msgf("aws sdk: "+format, args...)
		})
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	})
}

// once is for writes: the SDK may never repeat one, whatever the configuration says.
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 0
}

// patiently is for reads. There is no limit over all calls on the rate of retries: one bad minute would fail reads of
// streams that have nothing to do with it.
func patiently(o *dynamodb.Options) {
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
		r.MaxAttempts, r.MaxBackoff = 3, 200*time.Millisecond
		r.RateLimiter = ratelimit.None
	})
	o.RetryMaxAttempts = 0
}

// errCondition carries the item that failed the condition of a write; nil if there is none, or if the service did not
// say.
type errCondition struct{ item attrs }

func (*errCondition) Error() string { return "the condition of the write is not met" }

// write makes one request that writes. Errors are *errCondition, or wrap coordinator.ErrNotApplied or ErrUnknown.
func (s *Store) write(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, sending := track(ctx)
	err := call(ctx)
	if err == nil {
		return nil
	}
	var failed *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &failed):
		return &errCondition{failed.Item}
	case !sending.sent, declined(err):
		return fmt.Errorf("%w: %w", coordinator.ErrNotApplied, err)
	}
	return fmt.Errorf("%w: %w", coordinator.ErrUnknown, err)
}

// declined reports whether the service itself said that it did not do what was asked: throttling, a conflict with a
// transaction, an invalid request, missing permissions. A 5xx says no such thing, nor does an answer without one of
// the service's error codes, which may come from something in between.
func declined(err error) bool {
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) {
		return false
	}
	if throttles[api.ErrorCode()] {
		return true
	}
	status := response.HTTPStatusCode()
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && api.ErrorCode() != "UnknownError" &&
		api.ErrorCode() != ""
}

// throttles are the codes that mean "later", with whatever status they come.
var throttles = map[string]bool{
	"ProvisionedThroughputExceededException": true,
	"ThrottlingException":                    true,
	"RequestLimitExceeded":                   true,
	"TransactionConflictException":           true,
	"TransactionInProgressException":         true,
}
