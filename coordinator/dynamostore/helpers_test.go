package dynamostore

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// endpointVariable says where the emulator is; tools/with-servers sets it.
const endpointVariable = "TAILRACE_DYNAMODB_DYNALITE"

// emulator is the URL of the emulator. Without one the test is skipped, or fails where nothing may be left out.
func emulator(t testing.TB) string {
	t.Helper()
	url := os.Getenv(endpointVariable)
	if url == "" {
		missing := endpointVariable + " is not set: no DynamoDB emulator; run tools/with-servers dynalite -- go test ..."
		if os.Getenv("TAILRACE_REQUIRE") == "all" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return url
}

// options reach a table at an endpoint. The timeout is long, since the machine may be busy with other tests.
func options(endpoint, table string) Options {
	return Options{
		AWS: aws.Config{
			Region: "us-east-1",
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
			}),
			// Writes must be sent once whatever this says.
			RetryMaxAttempts: 5,
		},
		Table: table, Endpoint: endpoint, Timeout: 30 * time.Second,
	}
}

// tableName is a name that no other test uses, nor another run against the same emulator.
func tableName() string { return "t-" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// newTable makes a table at the emulator and returns its name.
func newTable(t testing.TB) string {
	t.Helper()
	name := tableName()
	if err := CreateTable(t.Context(), options(emulator(t), name), TableOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// open opens a store.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newStoreAt makes a table and opens it through endpoint, which leads to the emulator.
func newStoreAt(t testing.TB, endpoint string) *Store { return open(t, options(endpoint, newTable(t))) }

// mustCreate creates a head.
func mustCreate(t interface{ Fatalf(string, ...any) }, ctx context.Context, s *Store, h coordinator.Head) {
	if err := s.Create(ctx, h); err != nil {
		t.Fatalf("Create: %v", err)
	}
}
