package dynamostore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// What a failure says about a write: definitely not applied, or unknown. Where it is definite, the head is as it was.
func TestClassification(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	table := newTable(t)
	for _, test := range []struct {
		name     string
		fault    fault
		definite bool
		applied  bool
	}{
		{"throughput exceeded", refuses(400, "ProvisionedThroughputExceededException"), true, false},
		{"throttled", refuses(400, "ThrottlingException"), true, false},
		{"throttled with a 5xx", refuses(503, "ThrottlingException"), true, false},
		{"request limit", refuses(400, "RequestLimitExceeded"), true, false},
		{"conflict with a transaction", refuses(400, "TransactionConflictException"), true, false},
		{"a transaction was cancelled", refuses(400, "TransactionCanceledException"), true, false},
		{"invalid", refuses(400, "ValidationException"), true, false},
		{"too large", refuses(400, "ItemCollectionSizeLimitExceededException"), true, false},
		{"no such table", refuses(400, "ResourceNotFoundException"), true, false},
		{"no permission", refuses(400, "AccessDeniedException"), true, false},
		{"unknown credentials", refuses(400, "UnrecognizedClientException"), true, false},
		{"expired credentials", refuses(400, "ExpiredTokenException"), true, false},
		{"server error", refuses(500, "InternalServerError"), false, false},
		{"unavailable", refuses(503, "ServiceUnavailable"), false, false},
		{"a balancer's 502", html(http.StatusBadGateway), false, false},
		{"a balancer's 404", html(http.StatusNotFound), false, false},
		{"a balancer's 408", html(http.StatusRequestTimeout), false, false},
		{"a 200 that is no answer", html(http.StatusOK), false, false},
		{"a redirect", html(http.StatusTemporaryRedirect), false, false},
		{"connection closed before the request was read", dropsRequest, false, false},
		{"connection closed instead of an answer", dropsAnswer, false, true},
		{"connection closed within the answer", cutsAnswer, false, true},
		{"no answer", hangs, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, options(p.URL, table))
			ctx, h := t.Context(), storetest.NewHead()
			mustCreate(t, ctx, s, h)
			if test.name == "no answer" {
				s.http.timeout = 500 * time.Millisecond // of connections that are made
			}
			p.take()
			p.failing(writesOnly(test.fault))
			defer p.failing(nil)
			_, err := s.Commit(ctx, h.Stream, plainCommit(2))
			checkClass(t, err, test.definite)
			for len(p.take()) == 0 { // a request that was given up may arrive later
				time.Sleep(time.Millisecond)
			}
			p.failing(nil)
			s.http.timeout = 30 * time.Second
			got, err := s.Load(ctx, h.Stream)
			if err != nil || got.V != h.V+map[bool]uint64{true: 1}[test.applied] {
				t.Errorf("afterwards: %v, V %d", err, got.V)
			}
			if test.applied || test.name == "no answer" {
				return
			}
			p.failing(writesOnly(test.fault))
			for call, err := range writes(s, ctx, h) {
				t.Log(call)
				checkClass(t, err, test.definite)
			}
		})
	}
}

func checkClass(t *testing.T, err error, definite bool) {
	t.Helper()
	if errors.Is(err, coordinator.ErrNotApplied) != definite || errors.Is(err, coordinator.ErrUnknown) == definite ||
		coordinator.Definite(err) != definite {
		t.Errorf("%v, want it definite: %v", err, definite)
	}
	if errors.Is(err, coordinator.ErrNotFound) || errors.Is(err, coordinator.ErrExists) {
		t.Errorf("%v says what nobody answered", err)
	}
}

// Where no byte of a write can have left, it is definite that it was not applied.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	refusing := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never ends a TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	noCredentials := options("http://127.0.0.1:1", "t").AWS
	noCredentials.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("none")
	})
	for name, o := range map[string]Options{
		"connection refused":   options(refusing(), "t"),
		"no such host":         options("http://nowhere.invalid", "t"),
		"no TLS handshake":     options("https://"+silent.Addr().String(), "t"),
		"no credentials":       {AWS: noCredentials, Endpoint: "http://127.0.0.1:1", Table: "t"},
		"no endpoint, no name": {AWS: options("", "").AWS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Timeout = 300 * time.Millisecond
			s := newStore(o)
			h := storetest.NewHead()
			for call, err := range writes(s, t.Context(), h) {
				t.Log(call)
				checkClass(t, err, true)
			}
			for call, err := range reads(s, t.Context(), h) {
				if err == nil || errors.Is(err, coordinator.ErrNotFound) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}

// A request that waits for a connection until its time is up was not sent; the one that holds the connection was.
func TestTimeoutWhileWaiting(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	o := options(p.URL, newTable(t))
	o.MaxConns = 1
	s := open(t, o)
	h := storetest.NewHead()
	mustCreate(t, t.Context(), s, h)
	arrived := make(chan struct{})
	p.failing(always(func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
		close(arrived)
		hangs(p, w, r, body)
	}))
	holder, release := context.WithCancel(t.Context())
	held := make(chan error)
	go func() { held <- second(s.Commit(holder, h.Stream, plainCommit(2))) }()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	checkClass(t, second(s.Commit(ctx, h.Stream, plainCommit(3))), true)
	release()
	checkClass(t, <-held, false)
}

// A refusal is definite, also where the read that should name its reason fails.
func TestReasonUnknown(t *testing.T) {
	t.Parallel()
	p := newProxy(t) // an emulator that omits the old item
	s := newStoreAt(t, p.URL)
	ctx, h := t.Context(), storetest.NewHead()
	mustCreate(t, ctx, s, h)
	p.failing(func(r request) fault {
		if r.op == "GetItem" {
			return refuses(500, "InternalServerError")
		}
		return nil
	})
	checkClass(t, second(s.Commit(ctx, h.Stream, behind())), true)
	key := coordinator.Key{Part: "p", Sort: "s"}
	if _, err := s.Put(ctx, coordinator.Row{Key: key}, 0); err != nil {
		t.Fatal(err)
	}
	checkClass(t, second(s.Put(ctx, coordinator.Row{Key: key}, 0)), true)
	checkClass(t, s.Delete(ctx, key, 2), true)
	checkClass(t, s.Delete(ctx, key, 0), true)
}

// An item of a later format is not touched, and a table of one is not opened.
func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	p.completes = true
	for name, endpoint := range map[string]string{"with old items": p.URL, "without": emulator(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoreAt(t, endpoint)
			ctx, h := t.Context(), storetest.NewHead()
			row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Version: 1}
			item, rowAttrs, mark := headItem(&h), rowItem(&row), markerKey()
			mark[attrID] = blob(make([]byte, 16))
			for _, a := range []attrs{item, rowAttrs, mark} {
				a[attrFormat] = number(format + 1)
				mustPut(t, s, a)
			}
			for call, err := range writes(s, ctx, h) {
				if call == "Create" {
					continue
				}
				// Put asks for the absence of the row, which is a conflict whatever it holds.
				if !errors.Is(err, ErrVersion) || !coordinator.Definite(err) {
					t.Errorf("%s: %v", call, err)
				}
			}
			for call, err := range reads(s, ctx, h) {
				if !errors.Is(err, ErrVersion) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if err := s.Create(ctx, h); !errors.Is(err, coordinator.ErrExists) {
				t.Errorf("Create: %v", err)
			}
			for _, want := range []attrs{item, rowAttrs} {
				got, err := s.get(ctx, attrs{attrPartition: want[attrPartition], attrSort: want[attrSort]})
				if err != nil || len(got) != len(want) || sizeOf(got) != sizeOf(want) {
					t.Errorf("the item was changed: %v", err)
				}
			}
			if _, err := Open(ctx, options(endpoint, *s.table)); !errors.Is(err, ErrVersion) {
				t.Errorf("Open: %v", err)
			}
			if err := CreateTable(ctx, options(endpoint, *s.table), TableOptions{}); !errors.Is(err, ErrVersion) {
				t.Errorf("CreateTable: %v", err)
			}
		})
	}
}
