// Package dynamotest opens stores on the emulator for tests of what is built on them. Only a package below dynamostore may
// name the types of the AWS SDK that this takes.
package dynamotest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
)

// EndpointVariable says where the emulator is; tools/with-servers sets it.
const EndpointVariable = "TAILRACE_DYNAMODB_DYNALITE"

// Open makes a table of its own at an emulator, or at a proxy before one, and opens it. The timeout is long, since the
// machine may be busy with other tests.
func Open(tb testing.TB, endpoint string) *dynamostore.Store {
	tb.Helper()
	o := dynamostore.Options{
		AWS: aws.Config{
			Region: "us-east-1",
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
			}),
		},
		Table: "t-" + strings.ReplaceAll(uuid.NewString(), "-", ""), Endpoint: endpoint, Timeout: 30 * time.Second,
	}
	if err := dynamostore.CreateTable(tb.Context(), o, dynamostore.TableOptions{}); err != nil {
		tb.Fatal(err)
	}
	s, err := dynamostore.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Endpoint is the URL of the emulator, or empty where there is none; then the test fails where nothing may be left out.
func Endpoint(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv(EndpointVariable)
	if url == "" && os.Getenv("TAILRACE_REQUIRE") == "all" {
		tb.Fatalf("%s is not set: run under tools/with-servers dynalite", EndpointVariable)
	}
	return url
}
