package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/compose"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// errNoMaintenance says that this function has none, which its composition sees to.
var errNoMaintenance = errors.New("this function does no maintenance")

// maintain does what is due, for a schedule or a direct invocation, and tells what it did. Its failure is the
// invocation's, so that it shows in the platform's own figures; the next run goes on where this one ended.
func (s *Server) maintain(ctx context.Context) (any, error) {
	if s.o.Maintain == nil {
		return nil, errNoMaintenance
	}
	answer, cut := deadlines(ctx, schedule)
	within, cancel := context.WithDeadline(ctx, answer)
	defer cancel()
	report, err := s.o.Maintain(within)
	s.settleBy(ctx, cut)
	if err != nil {
		return nil, err
	}
	return report, nil
}

// maintenance is what the function of that name does at each run: what a server does in the background.
type maintenance struct {
	directory *tenancy.Directory
	upkeep    *tenancy.Upkeep
	table     coordinator.Table
	now       func() time.Time

	mu sync.Mutex // one run at a time
}

func newMaintenance(made *compose.Service) *maintenance {
	return &maintenance{directory: made.Directory, upkeep: made.Upkeep, table: made.Stores.Table, now: time.Now}
}

// repairPeriod is how often the whole directory is walked for what no work row led to.
const repairPeriod = 24 * time.Hour

// progress is what one run leaves for the next one, in a row of the table, since no process lasts.
type progress struct {
	// Last is the basin that the last round ended with; the next begins behind it, so that a round which the time was too
	// short for does not always leave the same basins out.
	Last segments.BasinID `json:"last"`
	// Repaired is when the directory was last walked.
	Repaired time.Time `json:"repaired"`
}

var progressKey = coordinator.Key{Part: "store", Sort: "maintenance"}

// report is what a run answers.
type report struct {
	// Work of the directory that was due: done, waiting for something, failed and to be tried again.
	WorkDone   int64 `json:"work_done"`
	WorkLeft   int64 `json:"work_left"`
	WorkFailed int64 `json:"work_failed"`

	Basins       int `json:"basins"`
	Streams      int `json:"streams"`
	DeletedEmpty int `json:"deleted_empty"`
	Forgotten    int `json:"forgotten"`

	ObjectsDeleted     int    `json:"objects_deleted"`
	BytesDeleted       uint64 `json:"bytes_deleted"`
	ObjectsFailed      int    `json:"objects_failed"`
	ObjectsQuarantined int    `json:"objects_quarantined"`

	Repaired  bool `json:"repaired"`  // the whole directory was walked
	Completed bool `json:"completed"` // every stream was looked at
}

func reportOf(s tenancy.Swept, u tenancy.UpkeepReport) report {
	return report{
		WorkDone: s.Done, WorkLeft: s.Left, WorkFailed: s.Failed,
		Basins: u.Basins, Streams: u.Streams, DeletedEmpty: u.DeletedEmpty, Forgotten: u.Forgotten,
		ObjectsDeleted: u.Collected.Deleted, BytesDeleted: uint64(u.Collected.Bytes),
		ObjectsFailed: u.Collected.Failed, ObjectsQuarantined: u.Collected.Quarantined,
	}
}

// run does what is due until ctx ends: deletions and creations left half done, then a round over all streams (floors,
// retirements, moves, deletion of empty streams, collection). That the time ran out is no failure.
func (m *maintenance) run(ctx context.Context) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, version, err := m.load(ctx)
	if err != nil {
		return nil, err
	}
	var failed []error
	swept, err := m.directory.Sweep(ctx)
	if err != nil {
		failed = append(failed, fmt.Errorf("sweep: %w", err))
	}
	m.upkeep.Last = at.Last
	looked, err := m.upkeep.Round(ctx)
	if err != nil && ctx.Err() == nil {
		failed = append(failed, fmt.Errorf("upkeep: %w", err))
	}
	r := reportOf(swept, looked)
	if r.Completed = ctx.Err() == nil; r.Completed && m.now().Sub(at.Repaired) >= repairPeriod {
		if err := m.directory.Repair(ctx); err != nil && ctx.Err() == nil {
			failed = append(failed, fmt.Errorf("repair: %w", err))
		} else if r.Repaired = ctx.Err() == nil; r.Repaired {
			at.Repaired = m.now()
		}
	}
	at.Last = m.upkeep.Last
	m.store(ctx, at, version)
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return encode(r)
}

func (m *maintenance) load(ctx context.Context) (at progress, version uint64, err error) {
	row, err := m.table.Get(ctx, progressKey)
	switch {
	case errors.Is(err, coordinator.ErrNotFound):
		return at, 0, nil
	case err != nil:
		return at, 0, fmt.Errorf("read how far maintenance is: %w", err)
	}
	// What cannot be read is as if it were not there: it only says where to begin.
	_ = json.Unmarshal(row.Value, &at)
	return at, row.Version, nil
}

// storeTime is what storing the progress may take, beyond the end of a run whose time ran out.
const storeTime = 500 * time.Millisecond

// store notes how far a run got. If another run has done so meanwhile, or it fails, the next begins elsewhere, which costs
// only requests.
func (m *maintenance) store(ctx context.Context, at progress, version uint64) {
	value, err := json.Marshal(at)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	_, _ = m.table.Put(ctx, coordinator.Row{Key: progressKey, Value: value, ID: coordinator.NewOpID()}, version)
}
