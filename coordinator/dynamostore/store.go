// Package dynamostore keeps heads and control records in one DynamoDB table. Every update of a head is one conditional
// UpdateItem, without a read before it. README.md gives the layout of the items and the reasons.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Room is how much of a stream stays in its head. A write is billed by the size of the whole item, so that an idle
// head must stay near 1 KiB: a move is owed early. It is refused late, since while a move is on its way, every one of
// many independent writers may commit twice (README.md has the measurements). A splice names each entry that it takes
// out, and the service bounds an expression to 4 KiB and 300 operators.
var Room = coordinator.Room{
	MoveEntries: 12, MaxEntries: 256, MaxSplice: 128,
	InlineBatch: 1 << 10, MoveInline: 2 << 10, MaxInline: 16 << 10,
}

// The errors of Open and CreateTable, beside ErrVersion.
var (
	// ErrNoTable: there is no table of that name. CreateTable makes one.
	ErrNoTable = errors.New("the table does not exist")
	// ErrForeign: the table was not made by CreateTable, or something else is in it. Nothing was changed.
	ErrForeign = errors.New("the table is not a store of this service")
)

// Options say where the table is and how to reach it.
type Options struct {
	// AWS has the region and the credentials. Of its HTTP client only the TLS settings are used; its retry settings
	// do not apply to writes.
	AWS aws.Config
	// Table is the name of the table.
	Table string
	// Endpoint is the URL of the service, if it is not the region's own. It does not depend on where credentials come
	// from.
	Endpoint string
	// Log gets the SDK's messages at debug level.
	Log zerolog.Logger
	// Timeout bounds every request from the dial to the last byte of the answer; 2 s. A read is tried up to three
	// times, a write once.
	Timeout time.Duration
	// MaxConns bounds the connections; 256.
	MaxConns int
}

func (o *Options) setDefaults() {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.MaxConns == 0 {
		o.MaxConns = 256
	}
}

// Store is a coordinator.Heads and a coordinator.Table. A write is sent once, unless it is certain that it was not
// applied. All methods may be called at once.
type Store struct {
	db    *dynamodb.Client
	http  *httpClient
	table *string
	id    uuid.UUID
	seen  hints
}

var (
	_ coordinator.Heads = (*Store)(nil)
	_ coordinator.Table = (*Store)(nil)
)

// Open returns a store on a table that CreateTable made. It costs one read. Errors are ErrNoTable, ErrForeign,
// ErrVersion, and those of the service.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := newStore(o)
	var err error
	if s.id, err = s.marker(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open table %s: %w", o.Table, err)
	}
	return s, nil
}

func newStore(o Options) *Store {
	o.setDefaults()
	client := newHTTPClient(&o)
	return &Store{db: newClient(&o, client), http: client, table: &o.Table}
}

// ID names the table's contents; it was drawn when the table was made.
func (s *Store) ID() uuid.UUID { return s.id }

// Close closes the connections that are idle. Calls under way go on.
func (s *Store) Close() { s.http.transport.CloseIdleConnections() }
