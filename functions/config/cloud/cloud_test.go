package cloud

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// No test here is parallel: the AWS sources are read from the environment of the process.

// clean removes what the machine may have set up, so that a test sees its own sources alone.
func clean(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // puts it back at the end
			os.Unsetenv(name)
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// table stands in for DynamoDB: it notes who asked, and has nothing.
type table struct {
	*httptest.Server
	mu      sync.Mutex
	signers []fakes3.Keys
}

func startTable(t *testing.T, tls bool) *table {
	t.Helper()
	d := &table{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		id, _, _ := strings.Cut(rest, "/")
		d.mu.Lock()
		defer d.mu.Unlock()
		d.signers = append(d.signers, fakes3.Keys{AccessKeyID: id, SessionToken: r.Header.Get("X-Amz-Security-Token")})
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		fmt.Fprint(w, "{}")
	})
	if tls {
		d.Server = httptest.NewTLSServer(handler)
	} else {
		d.Server = httptest.NewServer(handler)
	}
	t.Cleanup(d.Close)
	return d
}

// tokenService stands in for STS: it gives credentials for a web identity.
func tokenService(t *testing.T, want string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != want {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIDWEB</AccessKeyId><SecretAccessKey>web-secret</SecretAccessKey>
<SessionToken>web-session</SessionToken><Expiration>%s</Expiration></Credentials>
<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn><AssumedRoleId>x:s</AssumedRoleId></AssumedRoleUser>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(s.Close)
	return s
}

// BL-107: every source of credentials works with endpoints of one's own, by http and https, for both stores; and the
// endpoints may come from settings or from the standard variables.
func TestBL107SourcesTimesEndpoints(t *testing.T) {
	sources := map[string]struct {
		set  func(t *testing.T)
		want fakes3.Keys
	}{
		"static": {func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIDSTATIC")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		}, fakes3.Keys{AccessKeyID: "AKIDSTATIC"}},
		"static with a session": {func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIDTEMP")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			t.Setenv("AWS_SESSION_TOKEN", "session")
		}, fakes3.Keys{AccessKeyID: "AKIDTEMP", SessionToken: "session"}},
		"profile": {func(t *testing.T) {
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write(t, "[default]\naws_access_key_id=AKIDNOT\naws_secret_access_key=x\n"+
				"[work]\naws_access_key_id=AKIDPROFILE\naws_secret_access_key=secret\n"))
			t.Setenv("AWS_CONFIG_FILE", write(t, "[profile work]\nregion=eu-central-1\n"))
			t.Setenv("AWS_PROFILE", "work")
		}, fakes3.Keys{AccessKeyID: "AKIDPROFILE"}},
		"web identity": {func(t *testing.T) {
			t.Setenv("AWS_ENDPOINT_URL_STS", tokenService(t, "the-web-token").URL)
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, "the-web-token"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")
		}, fakes3.Keys{AccessKeyID: "AKIDWEB", SessionToken: "web-session"}},
	}
	for name, source := range sources {
		for _, tls := range []bool{false, true} {
			for _, byVariable := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, https %t, by variable %t", name, tls, byVariable), func(t *testing.T) {
					clean(t)
					source.set(t)
					signBoth(t, source.want, tls, byVariable)
				})
			}
		}
	}
}

// signBoth sends a request to each store and looks at who signed it.
func signBoth(t *testing.T, want fakes3.Keys, tls, byVariable bool) {
	t.Helper()
	bucket, heads := fakes3.Start, startTable(t, tls)
	if tls {
		bucket = fakes3.StartTLS
		t.Setenv("AWS_CA_BUNDLE", write(t, string(pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: heads.Certificate().Raw})))) // the same for all servers of httptest
	}
	fake := bucket(t)
	fake.Require(want)
	settings := config.Config{
		Objects: config.ObjectsURL{Bucket: fakes3.Bucket, Prefix: "p"}, Heads: config.HeadsURL{Table: "table"},
		S3Endpoint: config.Endpoint(fake.URL), DynamoDBEndpoint: config.Endpoint(heads.URL),
	}
	if byVariable {
		settings.S3Endpoint, settings.DynamoDBEndpoint = "", ""
		t.Setenv("AWS_ENDPOINT_URL", fake.URL)
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", heads.URL)
	}
	c, err := Load(t.Context(), settings, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	client, err := s3objects.Dial(c.Objects())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := s3objects.New(client).Get(t.Context(), "k", 0, 1); !errors.Is(err, segments.ErrObjectNotFound) {
		t.Errorf("object store: %v", err)
	}
	if _, err := dynamostore.Open(t.Context(), c.Table()); !errors.Is(err, dynamostore.ErrForeign) {
		t.Errorf("table: %v", err)
	}
	heads.mu.Lock()
	defer heads.mu.Unlock()
	if len(heads.signers) != 1 || heads.signers[0] != want {
		t.Errorf("the table was asked by %+v, want %+v once", heads.signers, want)
	}
}

func TestRegions(t *testing.T) {
	static := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
	for _, test := range []struct {
		name          string
		environ       map[string]string
		settings      config.Config
		bucket, table string // empty: refused
	}{
		{name: "none"},
		{name: "a variable", environ: map[string]string{"AWS_REGION": "eu-west-1"}, bucket: "eu-west-1", table: "eu-west-1"},
		{name: "settings", environ: map[string]string{"AWS_REGION": "eu-west-1"}, settings: config.Config{AWSRegion: "us-west-2", S3Region: "auto"}, bucket: "auto", table: "us-west-2"},
		{name: "an endpoint", settings: config.Config{DynamoDBEndpoint: "http://h"}, bucket: "us-east-1", table: "us-east-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clean(t)
			for _, environ := range []map[string]string{static, test.environ} {
				for name, value := range environ {
					t.Setenv(name, value)
				}
			}
			c, err := Load(t.Context(), test.settings, zerolog.Nop())
			if test.table == "" {
				if !errors.Is(err, ErrNoRegion) {
					t.Errorf("load: %v, want no region", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Objects().Region != test.bucket || c.Table().AWS.Region != test.table {
				t.Errorf("regions are %s and %s, want %s and %s", c.Objects().Region, c.Table().AWS.Region, test.bucket, test.table)
			}
		})
	}
}

func TestNoCredentials(t *testing.T) {
	clean(t)
	_, err := Load(t.Context(), config.Config{AWSRegion: "eu-west-1"}, zerolog.Nop())
	if !errors.Is(err, ErrNoCredentials) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("load: %v, want no credentials", err)
	}
	t.Setenv("AWS_PROFILE", "not-there")
	if _, err := Load(t.Context(), config.Config{AWSRegion: "eu-west-1"}, zerolog.Nop()); err == nil {
		t.Error("a profile that is not there is taken")
	}
}
