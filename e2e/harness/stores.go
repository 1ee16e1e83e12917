package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// The variables that choose and find the stores that servers are started on. tools/with-servers sets all but the first.
const (
	// StoresVariable is TableStores for a bucket and a table, BucketStores for a bucket alone, or empty for data folders.
	StoresVariable = "TAILRACE_E2E_STORES"
	TableStores    = "s3+dynamodb"
	BucketStores   = "s3+s3"

	bucketVariable   = "TAILRACE_S3_BUCKET"
	dynamoDBVariable = "TAILRACE_DYNAMODB_DYNALITE"
)

// The object stores by their variables; the first that is set is used.
var s3Variables = []string{s3Prefix + "VERSITYGW", s3Prefix + "MINIO"}

const s3Prefix = "TAILRACE_S3_"

// Shared reports whether servers are started on stores that they share. Then what Options call a data folder is a name by
// which they do.
func Shared() bool { return os.Getenv(StoresVariable) == TableStores || BucketAlone() }

// BucketAlone reports whether the shared stores are a bucket and nothing else.
func BucketAlone() bool { return os.Getenv(StoresVariable) == BucketStores }

// Endpoints are where the shared stores are. A bucket alone needs no dynamoDB.
func Endpoints() (s3, dynamoDB string, err error) {
	for _, variable := range s3Variables {
		if s3 = os.Getenv(variable); s3 != "" {
			break
		}
	}
	if s3 == "" || os.Getenv(bucketVariable) == "" {
		return "", "", errors.New("no server for a bucket: run under tools/with-servers versitygw --")
	}
	if BucketAlone() {
		return s3, "", nil
	}
	if dynamoDB = os.Getenv(dynamoDBVariable); dynamoDB == "" {
		return "", "", errors.New("no server for a table: run under tools/with-servers versitygw dynalite --")
	}
	return s3, dynamoDB, nil
}

// S3Name names the kind of the object store at an endpoint.
func S3Name(endpoint string) string {
	for _, variable := range s3Variables {
		if os.Getenv(variable) == endpoint {
			return strings.ToLower(strings.TrimPrefix(variable, s3Prefix))
		}
	}
	return "an S3 server"
}

// The folders of a prefix that heads and objects have to themselves where they share a bucket.
const HeadsFolder, ObjectsFolder = "heads", "objects"

// StoreFlags are the flags for the stores that data stands for: the folder itself, or a prefix of that name, or a prefix and a
// table, which is made when it is first asked for. Empty is memory.
func StoreFlags(ctx context.Context, bin, data string) ([]string, error) {
	switch {
	case data == "":
		return []string{"--memory"}, nil
	case !Shared():
		return []string{"--data=" + data}, nil
	}
	s3, dynamoDB, err := Endpoints()
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(data))
	name := "e2e-" + hex.EncodeToString(digest[:8])
	prefix := "s3://" + os.Getenv(bucketVariable) + "/" + name
	if BucketAlone() {
		return []string{"--heads=" + prefix + "/" + HeadsFolder, "--objects=" + prefix + "/" + ObjectsFolder, "--s3-endpoint=" + s3}, nil
	}
	table := []string{"--heads=dynamodb://" + name, "--dynamodb-endpoint=" + dynamoDB}
	if err := makeTable(ctx, bin, name, table); err != nil {
		return nil, err
	}
	return append(table, "--objects="+prefix, "--s3-endpoint="+s3), nil
}

// made has, by the name of the table, the function that makes it once.
var made sync.Map

func makeTable(ctx context.Context, bin, name string, flags []string) error {
	create := sync.OnceValue(func() error {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), bin, append([]string{"admin", "create-table"}, flags...)...)
		cmd.Env = foreignEnvironment()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make a table: %w\n%s", err, out)
		}
		return nil
	})
	once, _ := made.LoadOrStore(name, create)
	return once.(func() error)()
}
