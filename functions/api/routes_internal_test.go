package api

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// Every route says what it asks, and names in its path or body what that is judged by; what says nothing is refused to
// everybody.
func TestEveryRouteHasAPermit(t *testing.T) {
	t.Parallel()
	h := &handler{metrics: newMetrics(&Options{Registry: prometheus.NewRegistry()})}
	used := tenancy.OpsOf(tenancy.Trim) // a command record's alone
	for path, m := range h.routes() {
		for method, one := range m {
			p := one.permit
			if !p.public && !p.operator && len(p.ops) == 0 || p.public && (p.operator || len(p.ops) > 0) {
				t.Errorf("%s %s has the permit %+v", method, path, p)
			}
			for _, op := range p.ops {
				used |= tenancy.OpsOf(op)
				basin, stream, token := op.Needs()
				named := (!stream || p.body || strings.Contains(path, "{stream}")) && (!token || p.body || strings.Contains(path, "{id}")) &&
					(!basin || p.body || strings.Contains(path, "{basin}") || strings.HasPrefix(path, "/v1/streams"))
				if !op.Known() || !named {
					t.Errorf("%s %s asks for %s, whose names it does not have", method, path, op)
				}
			}
			if strings.HasPrefix(path, "/v1/") && (p.public || p.operator) {
				t.Errorf("%s %s is not judged by operations", method, path)
			}
		}
	}
	if used != tenancy.AllOps() {
		t.Errorf("no route asks for %v", (tenancy.AllOps() &^ used).List())
	}
	root := tenancy.Anyone()
	root.Operator = true
	r := httptest.NewRequest("GET", "/v1/basins", nil)
	for _, p := range []permit{{}, by(), by(0), {body: true}, {ops: []tenancy.Op{tenancy.ListBasins, 200}}} {
		if err := h.authorize(&exchange{principal: root}, r, p); !errors.Is(err, tenancy.ErrDenied) {
			t.Errorf("permit %+v: %v", p, err)
		}
	}
	if err := h.authorize(&exchange{}, r, by(tenancy.ListBasins)); !errors.Is(err, tenancy.ErrUnauthenticated) {
		t.Errorf("nobody may list basins: %v", err)
	}
}

// The API's names of operations and those that permissions have are the same.
func TestOperationsAgree(t *testing.T) {
	t.Parallel()
	issue := func(op string) error {
		_, err := wire.DecodeIssueAccessToken(fmt.Appendf(nil, `{"id":"x","scope":{"ops":[%q]}}`, op))
		return err
	}
	for _, op := range tenancy.AllOps().List() {
		if err := issue(op.String()); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	for _, op := range wire.Operations() {
		if _, ok := tenancy.ParseOp(string(op)); !ok {
			t.Errorf("%s is no operation that can be permitted", op)
		}
	}
}
