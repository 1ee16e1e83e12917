package s3objects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// clearEnvironment leaves no source of credentials but those a test sets up. Such tests cannot be parallel.
func clearEnvironment(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "USERPROFILE": home, "AWS_ACCESS_KEY_ID": "", "AWS_ACCESS_KEY": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SECRET_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_SHARED_CREDENTIALS_FILE": "", "AWS_CONFIG_FILE": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "", "AWS_ENDPOINT_URL_STS": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	return home
}

// serve runs a service of one answer.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

const tokenAnswer = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>webid</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>webtoken</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`

const roleAnswer = `{"AccessKeyId":"roleid","SecretAccessKey":"s","Token":"roletoken","Expiration":"%s"}`

func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBL107: every source of credentials works with an endpoint of its own, over http and https, and its session token is
// sent.
func TestBL107(t *testing.T) {
	for name, c := range map[string]struct {
		setUp func(t *testing.T, home string)
		want  fakes3.Keys
	}{
		"environment": {func(t *testing.T, _ string) {
			t.Setenv("AWS_ACCESS_KEY_ID", "envid")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
		}, fakes3.Keys{AccessKeyID: "envid"}},
		"environment with a session token": {func(t *testing.T, _ string) {
			t.Setenv("AWS_ACCESS_KEY_ID", "envid")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
			t.Setenv("AWS_SESSION_TOKEN", "envtoken")
		}, fakes3.Keys{AccessKeyID: "envid", SessionToken: "envtoken"}},
		"default profile": {func(t *testing.T, home string) {
			write(t, home+"/.aws/credentials", "[default]\naws_access_key_id = fileid\naws_secret_access_key = s\naws_session_token = filetoken\n")
		}, fakes3.Keys{AccessKeyID: "fileid", SessionToken: "filetoken"}},
		"named profile": {func(t *testing.T, home string) {
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE",
				write(t, home+"/creds", "[default]\naws_access_key_id = other\naws_secret_access_key = s\n[work]\naws_access_key_id = workid\naws_secret_access_key = s\n"))
			t.Setenv("AWS_PROFILE", "work")
		}, fakes3.Keys{AccessKeyID: "workid"}},
		"web identity": {func(t *testing.T, home string) {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, home+"/token", "jwt"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
			t.Setenv("AWS_ENDPOINT_URL_STS", serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("WebIdentityToken") != "jwt" || r.FormValue("RoleArn") != "arn:aws:iam::1:role/r" {
					http.Error(w, "who?", http.StatusForbidden)
				}
				w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT") // its clock is not the store's
				fmt.Fprintf(w, tokenAnswer, inAnHour())
			}))
		}, fakes3.Keys{AccessKeyID: "webid", SessionToken: "webtoken"}},
		"container": {func(t *testing.T, _ string) {
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", serve(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, roleAnswer, inAnHour())
			}))
		}, fakes3.Keys{AccessKeyID: "roleid", SessionToken: "roletoken"}},
		"instance": {func(t *testing.T, _ string) {
			t.Setenv("AWS_EC2_METADATA_DISABLED", "")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/latest/api/token":
					fmt.Fprint(w, "metadatatoken")
				case "/latest/meta-data/iam/security-credentials/":
					fmt.Fprint(w, "role")
				default:
					fmt.Fprintf(w, `{"Code":"Success",`+roleAnswer[1:], inAnHour())
				}
			}))
		}, fakes3.Keys{AccessKeyID: "roleid", SessionToken: "roletoken"}},
	} {
		for scheme, start := range map[string]func(testing.TB) *fakes3.Server{"http": fakes3.Start, "https": fakes3.StartTLS} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				c.setUp(t, clearEnvironment(t))
				fake := start(t)
				fake.Require(c.want)
				store := open(t, fake, func(o *s3objects.Options) { o.Credentials = nil })
				put(t, store, "k", "data")
				want(t, store, "k", "data")
				wantCount(t, fake, "", 2)
				if offset := store.Clock().Offset; offset.Abs() > time.Minute {
					t.Errorf("Clock is %v off", offset)
				}
			})
		}
	}
}

// TestNoCredentials: nothing is sent unsigned.
func TestNoCredentials(t *testing.T) {
	for name, setUp := range map[string]func(*testing.T){
		"none": func(*testing.T) {}, "profile that is not there": func(t *testing.T) { t.Setenv("AWS_PROFILE", "work") },
	} {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			setUp(t)
			fake := fakes3.Start(t)
			err := open(t, fake, func(o *s3objects.Options) { o.Credentials = nil }).Put(t.Context(), "k", nil)
			wantError(t, err, "put object: get credentials: ")
			if !errors.Is(err, s3objects.ErrNoCredentials) || errors.Is(err, s3objects.ErrUnavailable) {
				t.Errorf("Put = %v", err)
			}
			wantCount(t, fake, "", 0)
		})
	}
	fake := fakes3.Start(t)
	err := open(t, fake, func(o *s3objects.Options) {
		o.Credentials = s3objects.StaticCredentials(s3objects.Credentials{AccessKeyID: "id"})
	}).Probe(t.Context())
	if !errors.Is(err, s3objects.ErrNoCredentials) || errors.Is(err, s3objects.ErrUnavailable) {
		t.Errorf("Probe = %v", err)
	}
	wantCount(t, fake, "", 0)
}

// source counts how often it is asked, and answers by the number.
type source struct {
	asked  atomic.Int64
	answer func(n int64) (s3objects.Credentials, error)
}

func (s *source) fetch(ctx context.Context) (s3objects.Credentials, error) {
	c, err := s.answer(s.asked.Add(1))
	return c, errors.Join(err, ctx.Err())
}

func numbered(n int64, life time.Duration) s3objects.Credentials {
	return s3objects.Credentials{
		AccessKeyID: fmt.Sprintf("id%d", n), SecretAccessKey: "secret", Expires: time.Now().Add(life),
	}
}

// TestCredentialsAreRenewed before they expire, once for all who use them, and without a call waiting.
func TestCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
		src := &source{answer: func(n int64) (s3objects.Credentials, error) {
			if n > 1 {
				time.Sleep(time.Second)
			}
			if n == 2 {
				return s3objects.Credentials{}, errors.New("not now")
			}
			return numbered(n, time.Hour), nil
		}}
		store := open(t, fake, func(o *s3objects.Options) { o.Credentials = src.fetch })
		use := func(id string) {
			t.Helper()
			fake.Require(fakes3.Keys{AccessKeyID: id})
			start := time.Now()
			put(t, store, "k", "data")
			if took := time.Since(start); took != 0 {
				t.Errorf("Put took %v", took)
			}
		}
		use("id1")
		time.Sleep(54 * time.Minute)
		use("id1")
		time.Sleep(2 * time.Minute)
		use("id1") // asks, in vain
		time.Sleep(2 * time.Second)
		use("id1") // does not ask again so soon
		time.Sleep(10 * time.Second)
		use("id1") // asks, and does not wait
		time.Sleep(2 * time.Second)
		use("id3")
		if n := src.asked.Load(); n != 3 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestCredentialsRefused: a store that takes the credentials for expired makes them be asked for anew, once.
func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
		src := &source{answer: func(n int64) (s3objects.Credentials, error) {
			return s3objects.Credentials{AccessKeyID: "id", SecretAccessKey: "secret", SessionToken: fmt.Sprint(n)}, nil
		}}
		store := open(t, fake, func(o *s3objects.Options) { o.Credentials = src.fetch })
		fake.Require(fakes3.Keys{AccessKeyID: "id", SessionToken: "2"})
		put(t, store, "k", "data")
		if n := src.asked.Load(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		fake.Require(fakes3.Keys{AccessKeyID: "id", SessionToken: "never"})
		err := store.Put(t.Context(), "k", nil)
		if errors.Is(err, s3objects.ErrUnavailable) {
			t.Errorf("Put = %v", err)
		}
		wantError(t, err, "ExpiredToken", "2 attempts")
	})
}

// TestCredentialsHang: a source that does not answer ends no call late.
func TestCredentialsHang(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
		store := open(t, fake, func(o *s3objects.Options) {
			o.Credentials = func(ctx context.Context) (s3objects.Credentials, error) {
				<-ctx.Done()
				return s3objects.Credentials{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := store.Put(ctx, "k", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 500*time.Millisecond {
			t.Errorf("Put = %v after %v", err, time.Since(start))
		}
		err := store.Put(t.Context(), "k", nil)
		if took := time.Since(start); took > 500*time.Millisecond+s3objects.DefaultCallTimeout {
			t.Errorf("Put took %v", took)
		}
		if !errors.Is(err, s3objects.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put = %v", err)
		}
		wantCount(t, fake, "", 0)
	})
}
