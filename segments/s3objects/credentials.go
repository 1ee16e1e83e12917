package s3objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Credentials are what requests are signed with. Expires is zero for those that do not.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
	Expires         time.Time
}

// CredentialsFunc returns valid credentials. It is asked again before those it returned expire, by one caller at a time,
// and must honour ctx. An error that matches ErrNoCredentials is final; any other is worth another try.
type CredentialsFunc func(ctx context.Context) (Credentials, error)

// StaticCredentials always returns the same.
func StaticCredentials(c Credentials) CredentialsFunc {
	return func(context.Context) (Credentials, error) { return c, nil }
}

// ChainOptions change where DefaultCredentials looks. The zero value looks where the AWS tools do.
type ChainOptions struct {
	// Profile names the profile in the shared files. Empty: AWS_PROFILE, or else "default".
	Profile string
	// Region chooses the token service for a web identity.
	Region string
	// TokenEndpoint is the URL of the token service. Empty: AWS_ENDPOINT_URL_STS, or else that of AWS.
	TokenEndpoint string
	// MetadataEndpoint is the URL of the instance metadata service. Empty: AWS_EC2_METADATA_SERVICE_ENDPOINT, or else that
	// of EC2.
	MetadataEndpoint string
}

// DefaultCredentials takes the first source that is set up: AWS_ACCESS_KEY_ID and its companions; a web identity
// (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN); the shared credentials and config files; a container's credentials
// (AWS_CONTAINER_CREDENTIALS_*); the instance metadata service, unless AWS_EC2_METADATA_DISABLED is true. Where the object
// store is plays no part in it. A source that is set up but fails is an error; the next is not tried in its stead, except
// after the default profile, of which one cannot tell.
func DefaultCredentials(o ChainOptions) CredentialsFunc {
	// A client of its own: an answer of these services says nothing about the object store.
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Second, TLSHandshakeTimeout: dialTimeout,
	}}
	return func(ctx context.Context) (Credentials, error) {
		var faults []string
		lasting := true
		for _, source := range o.sources() {
			v, err := source.RetrieveWithCredContext(&credentials.CredContext{Client: client, Context: ctx})
			if err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
				return Credentials{v.AccessKeyID, v.SecretAccessKey, v.SessionToken, v.Expiration}, nil
			}
			if err == nil {
				err = errors.New("it has none")
			}
			lasting = lasting && source.lasting
			faults = append(faults, fmt.Sprintf("%s: %v", source.name, withoutURL(err)))
		}
		if lasting {
			return Credentials{}, fmt.Errorf("%w: %s", ErrNoCredentials, strings.Join(faults, "; "))
		}
		return Credentials{}, errors.New(strings.Join(faults, "; "))
	}
}

type source struct {
	credentials.Provider
	name string
	// lasting: where it fails, something has to be set up or changed.
	lasting bool
}

// sources are the one that is set up, or what is left to try if none is.
func (o ChainOptions) sources() []source {
	set := func(name string) bool { return os.Getenv(name) != "" }
	switch {
	case set("AWS_ACCESS_KEY_ID") && set("AWS_SECRET_ACCESS_KEY"):
		return []source{{&credentials.EnvAWS{}, "environment", true}}
	case set("AWS_WEB_IDENTITY_TOKEN_FILE"):
		endpoint := cmp.Or(o.TokenEndpoint, os.Getenv("AWS_ENDPOINT_URL_STS"))
		return []source{{&credentials.IAM{Endpoint: endpoint, Region: o.Region}, "web identity", false}}
	case o.Profile != "" || set("AWS_PROFILE"):
		return []source{{&credentials.FileAWSCredentials{Profile: o.Profile}, "profile", true}}
	}
	found := []source{{&credentials.FileAWSCredentials{}, "default profile", true}}
	switch {
	case set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), set("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
		found = append(found, source{&credentials.IAM{Region: o.Region}, "container", false})
	case os.Getenv("AWS_EC2_METADATA_DISABLED") != "true":
		endpoint := cmp.Or(o.MetadataEndpoint, os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"))
		found = append(found, source{&credentials.IAM{Endpoint: endpoint, Region: o.Region}, "instance", false})
	}
	return found
}

const (
	// fetchTimeout bounds one question for credentials, so that it fits into a call with attempts to spare.
	fetchTimeout = 3 * time.Second
	// refreshAhead is how long before they expire credentials are asked for anew, while the old ones are still used; never
	// more than half of their life.
	refreshAhead = 5 * time.Minute
	// refreshAgain is how long after a failed refresh the next is tried, while the old ones are still good.
	refreshAgain = 10 * time.Second
)

// keyring keeps the current credentials. The library has a cache of its own, under whose lock a source that hangs would
// hold up every request whatever its deadline; this one lets a caller go when his context ends.
type keyring struct {
	fetch CredentialsFunc
	now   func() time.Time
	// life is what fetches run in: several callers may wait for one, so it is no caller's.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	value   Credentials
	renewAt time.Time // when to ask anew; zero if never
	valid   bool
	taken   bool // the library has this value
	asking  *question
}

func newKeyring(fetch CredentialsFunc) *keyring {
	k := &keyring{fetch: fetch, now: time.Now}
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// question is one fetch under way, which all who need it wait for.
type question struct {
	done chan struct{}
	err  error // set before done is closed
}

// ready returns once there are credentials that have not expired.
func (k *keyring) ready(ctx context.Context) error {
	k.mu.Lock()
	now := k.now()
	expired := !k.valid || !k.value.Expires.IsZero() && !now.Before(k.value.Expires)
	if !expired && (k.renewAt.IsZero() || now.Before(k.renewAt)) {
		k.mu.Unlock()
		return nil
	}
	if k.asking == nil {
		k.asking = &question{done: make(chan struct{})}
		go k.ask(k.asking)
	}
	q := k.asking
	k.mu.Unlock()
	if !expired {
		return nil
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("get credentials: %w", context.Cause(ctx))
	}
}

func (k *keyring) ask(q *question) {
	ctx, cancel := context.WithTimeout(k.life, fetchTimeout)
	defer cancel()
	value, err := k.fetch(ctx)
	if err == nil && (value.AccessKeyID == "" || value.SecretAccessKey == "") {
		err = ErrNoCredentials
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking = nil
	if err != nil {
		q.err = fmt.Errorf("get credentials: %w", err)
		k.renewAt = k.now().Add(refreshAgain)
	} else {
		k.value, k.valid, k.taken, k.renewAt = value, true, false, time.Time{}
		if !value.Expires.IsZero() {
			k.renewAt = value.Expires.Add(-min(refreshAhead, value.Expires.Sub(k.now())/2))
		}
	}
	close(q.done)
}

// forget makes the next ready ask anew: the store took the current credentials for expired.
func (k *keyring) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.valid = false
}

func (k *keyring) current() Credentials {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value
}

// RetrieveWithCredContext implements the library's Provider: whoever signs has called ready before.
func (k *keyring) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = true
	return credentials.Value{
		AccessKeyID: k.value.AccessKeyID, SecretAccessKey: k.value.SecretAccessKey, SessionToken: k.value.SessionToken,
		Expiration: k.value.Expires, SignerType: credentials.SignatureV4,
	}, nil
}

// Retrieve implements the library's Provider.
func (k *keyring) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// IsExpired implements the library's Provider: whether it has to take the value anew.
func (k *keyring) IsExpired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.taken
}
