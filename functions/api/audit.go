package api

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// Audit is what the API needs of an audit.Log.
type Audit interface {
	Begin(ctx context.Context, e audit.Entry) (audit.End, error)
}

// audit stores that a request is about to change something, found to be well-formed and permitted. If that fails, the
// change must not be begun. The result is stored when the request is answered.
func (h *handler) audit(ctx context.Context, x *exchange, operation string, on audit.Entry) (err error) {
	if h.o.Audit == nil {
		return nil
	}
	on.Operation, on.Via, on.RequestID = operation, "api", x.id
	on.Account, on.Token = string(x.principal.Account), x.principal.Token
	if x.principal.Operator {
		on.Account = string(tenancy.DefaultAccount) // also where it works on what is the service's own
	}
	x.audited, err = h.o.Audit.Begin(ctx, on)
	return err
}

// endAudit stores what came of a change.
func (x *exchange) endAudit() {
	if x.audited == nil {
		return
	}
	result := audit.Result{Status: x.status, Outcome: x.Header().Get(wire.HeaderProvisionResult)}
	if x.failure != nil {
		answer := wireError(x.failure)
		var e *wire.Error
		if errors.As(answer, &e) {
			result.Code, result.Applied = string(e.Code), string(e.Effect())
		}
	}
	x.audited(result)
}
