// Package cloud turns settings into the options of the stores in buckets and a table. All sign with the credentials of
// one chain, the standard one of AWS, whichever endpoints they talk to: where a store is and who may use it are separate
// settings.
package cloud

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

const (
	// credentialsTimeout bounds the first question for credentials, which may go through several sources.
	credentialsTimeout = 15 * time.Second
	// renewAhead is how long before they expire credentials are renewed, so that no request carries ones that end on its
	// way.
	renewAhead = time.Minute
	// fallbackRegion is what requests to stores that are not in AWS are signed for, if nobody says otherwise.
	fallbackRegion = "us-east-1"
)

// The errors of Load that an operator can mend.
var (
	ErrNoRegion = errors.New("no region: set --aws-region, AWS_REGION, or region in the profile")
	// ErrNoCredentials wraps what each source said.
	ErrNoCredentials = errors.New("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a " +
		"role that the environment provides")
)

// Cloud is what both stores are opened with.
type Cloud struct {
	settings config.Config
	sdk      aws.Config
	log      zerolog.Logger
}

// Load reads the standard AWS variables and files and asks once for credentials: AWS_ACCESS_KEY_ID and its companions, the
// profile with all it may say (roles to assume, single sign-on, processes), a web identity, a container's or an
// instance's role. Errors are ErrNoRegion, ErrNoCredentials, and those of files that cannot be read.
func Load(ctx context.Context, settings config.Config, log zerolog.Logger) (*Cloud, error) {
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
			log.Debug().Msgf("aws sdk: "+format, args...)
		})),
		awsconfig.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = renewAhead }),
	}
	if settings.AWSRegion != "" {
		options = append(options, awsconfig.WithRegion(string(settings.AWSRegion)))
	}
	c := &Cloud{settings: settings, log: log}
	endpoint := c.dynamoDBEndpoint()
	if settings.Heads.Bucket != "" {
		endpoint = c.s3Endpoint()
	}
	if endpoint != "" {
		options = append(options, awsconfig.WithDefaultRegion(fallbackRegion))
	}
	var err error
	if c.sdk, err = awsconfig.LoadDefaultConfig(ctx, options...); err != nil {
		return nil, fmt.Errorf("read AWS settings: %w", err)
	}
	if c.sdk.Region == "" {
		return nil, ErrNoRegion
	}
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	if _, err := c.sdk.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	return c, nil
}

// Objects are the options of the bucket of the objects.
func (c *Cloud) Objects() s3objects.Options {
	return c.bucket(c.settings.Objects.Bucket, c.settings.Objects.Prefix)
}

// BucketHeads are the options of the bucket of the heads, where those are in one.
func (c *Cloud) BucketHeads() s3objects.Options {
	return c.bucket(c.settings.Heads.Bucket, c.settings.Heads.Prefix)
}

func (c *Cloud) bucket(name, prefix string) s3objects.Options {
	return s3objects.Options{
		Bucket:      name,
		Prefix:      prefix,
		Endpoint:    c.s3Endpoint(),
		Region:      cmp.Or(string(c.settings.S3Region), c.sdk.Region),
		Addressing:  addressing(c.settings.S3Addressing),
		Credentials: c.credentials,
		RootCAs:     c.rootCAs(),
		Log:         c.log,
	}
}

// Table are the options of the table of the heads, where those are in one.
func (c *Cloud) Table() dynamostore.Options {
	return dynamostore.Options{AWS: c.sdk, Table: c.settings.Heads.Table, Endpoint: c.dynamoDBEndpoint(), Log: c.log}
}

func addressing(a config.Addressing) s3objects.Addressing {
	switch a {
	case config.AddressPath:
		return s3objects.AddressPath
	case config.AddressHost:
		return s3objects.AddressHost
	}
	return s3objects.AddressAuto
}

// credentials are those of the chain, which keeps them until they have to be renewed.
func (c *Cloud) credentials(ctx context.Context) (s3objects.Credentials, error) {
	v, err := c.sdk.Credentials.Retrieve(ctx)
	if err != nil {
		return s3objects.Credentials{}, fmt.Errorf("ask the AWS sources: %w", err)
	}
	got := s3objects.Credentials{
		AccessKeyID: v.AccessKeyID, SecretAccessKey: v.SecretAccessKey, SessionToken: v.SessionToken,
	}
	if v.CanExpire {
		got.Expires = v.Expires
	}
	return got, nil
}

func (c *Cloud) s3Endpoint() string {
	return cmp.Or(string(c.settings.S3Endpoint), endpointVariable("AWS_ENDPOINT_URL_S3"))
}

func (c *Cloud) dynamoDBEndpoint() string {
	return cmp.Or(string(c.settings.DynamoDBEndpoint), endpointVariable("AWS_ENDPOINT_URL_DYNAMODB"))
}

// endpointVariable reads an endpoint as the AWS tools do: the service's own variable, or else the one for all services.
func endpointVariable(name string) string {
	if os.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true" {
		return ""
	}
	return cmp.Or(os.Getenv(name), os.Getenv("AWS_ENDPOINT_URL"))
}

// rootCAs are those of AWS_CA_BUNDLE, if it is set; nil for the system's.
func (c *Cloud) rootCAs() *x509.CertPool {
	client, ok := c.sdk.HTTPClient.(*awshttp.BuildableClient)
	if !ok || client.GetTransport().TLSClientConfig == nil {
		return nil
	}
	return client.GetTransport().TLSClientConfig.RootCAs
}
