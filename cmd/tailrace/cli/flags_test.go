package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
)

// What flags say of a stream: of one to make, and of one to change.
func TestStreamFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args         []string
		config, edit string
	}{
		{nil, `null`, `{}`},
		{
			[]string{"--storage-class=express", "--retention-policy=7d", "--timestamping-mode=arrival", "--timestamping-uncapped=true", "--delete-on-empty-min-age=1h", "--fencing=exclusive"},
			`{"storage_class":"express","retention_policy":{"age":604800},"timestamping":{"mode":"arrival","uncapped":true},"delete_on_empty":{"min_age_secs":3600},"fencing":"exclusive"}`,
			`{"storage_class":"express","retention_policy":{"age":604800},"timestamping":{"mode":"arrival","uncapped":true},"delete_on_empty":{"min_age_secs":3600},"fencing":"exclusive"}`,
		},
		{
			[]string{"--storage-class=default", "--retention-policy=default", "--timestamping-mode=default", "--timestamping-uncapped=false", "--delete-on-empty-min-age=default", "--fencing=default"},
			`{"storage_class":null,"retention_policy":null,"timestamping":{"mode":null,"uncapped":false},"delete_on_empty":null}`,
			`{"storage_class":null,"retention_policy":null,"timestamping":{"mode":null,"uncapped":false},"delete_on_empty":{"min_age_secs":null},"fencing":null}`,
		},
		{[]string{"--retention-policy=infinite"}, `{"storage_class":null,"retention_policy":{"infinite":{}},"timestamping":null,"delete_on_empty":null}`, `{"retention_policy":{"infinite":{}}}`},
	} {
		var f streamFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addTo(flags)
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		config, err := f.config()
		change, err2 := f.change()
		if err != nil || err2 != nil || jsonText(t, config) != test.config || jsonText(t, change) != test.edit {
			t.Errorf("%q: make %s, %v; change %s, %v", test.args, jsonText(t, config), err, jsonText(t, change), err2)
		}
	}
}

func TestBasinFlags(t *testing.T) {
	t.Parallel()
	var f basinFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.addTo(flags)
	args := []string{"--stream-cipher=aes-256-gcm", "--create-stream-on-append", "--create-stream-on-read=false", "--retention-policy=1h"}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	config, err := f.config()
	if want := `{"default_stream_config":{"storage_class":null,"retention_policy":{"age":3600},"timestamping":null,"delete_on_empty":null},` +
		`"stream_cipher":"aes-256-gcm","create_stream_on_append":true,"create_stream_on_read":false}`; err != nil || jsonText(t, config) != want {
		t.Errorf("make %s, %v", jsonText(t, config), err)
	}
	change, err := f.change()
	if want := `{"default_stream_config":{"retention_policy":{"age":3600}},"stream_cipher":"aes-256-gcm",` +
		`"create_stream_on_append":true,"create_stream_on_read":false}`; err != nil || jsonText(t, change) != want {
		t.Errorf("change %s, %v", jsonText(t, change), err)
	}
}

func TestBadFlagsAreUsage(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--retention-policy=soon", "--retention-policy=1500ms", "--timestamping-uncapped=perhaps", "--delete-on-empty-min-age=-1h"} {
		var f streamFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addTo(flags)
		if err := flags.Parse([]string{arg}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.config(); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestStarts(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	for _, test := range []struct {
		args []string
		want client.Start
	}{
		{nil, client.FromSeqNum(0)},
		{[]string{"--seq-num=7"}, client.FromSeqNum(7)},
		{[]string{"--timestamp=0"}, client.FromTimestamp(0)},
		{[]string{"--tail-offset=3"}, client.FromTail(3)},
		{[]string{"--ago=1h"}, client.FromTimestamp(6_400_000)},
		{[]string{"--ago=1y"}, client.FromTimestamp(0)},
	} {
		var f startFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addTo(flags)
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		if got, err := f.start(now); err != nil || got != test.want {
			t.Errorf("%q starts at %+v, %v", test.args, got, err)
		}
	}
	var f startFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.addTo(flags)
	_ = flags.Parse([]string{"--seq-num=0", "--ago=1h"})
	if _, err := f.start(now); !errors.Is(err, errUsage) {
		t.Errorf("two starts: %v", err)
	}
}

func TestIssuedScope(t *testing.T) {
	t.Parallel()
	i := issuing{
		basins: "exact:my-basin", streams: "prefix:", tokens: "prefix:t/", ops: []string{"append"},
		groups: []string{"account:read", "stream:rw"}, expiresIn: "2m", autoPrefix: true,
	}
	spec, err := i.spec("id", time.UnixMilli(1_700_000_000_999))
	want := `{"id":"id","expires_at":"2023-11-14T22:15:20.000Z","auto_prefix_streams":true,"scope":{"basins":{"exact":"my-basin"},` +
		`"streams":{"prefix":""},"access_tokens":{"prefix":"t/"},"op_groups":{"account":{"read":true,"write":false},` +
		`"basin":{"read":false,"write":false},"stream":{"read":true,"write":true}},"ops":["append"]}}`
	if err != nil || jsonText(t, spec) != want {
		t.Errorf("%s, %v", jsonText(t, spec), err)
	}
	for _, bad := range []issuing{{basins: "my-basin"}, {groups: []string{"stream"}}, {groups: []string{"records:read"}}, {expiresIn: "x"}} {
		if _, err := bad.spec("id", time.Now()); !errors.Is(err, errUsage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Each kind of failure has a status of its own.
func TestStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, StatusOK},
		{errors.New("disk full"), StatusFailed},
		{usagef("no"), StatusUsage},
		{&client.Error{Status: 400}, StatusUsage},
		{wrote(&client.Error{Status: 422}), StatusUsage},
		{wrote(&client.SequenceError{Tail: 3}), StatusConflict},
		{wrote(&client.SequenceError{Tail: 3, Resent: true}), StatusUnknown},
		{wrote(&client.Error{Status: 409, Code: "resource_already_exists"}), StatusConflict},
		{&client.RevisionError{}, StatusConflict},
		{wrote(&client.FenceError{Installed: "t"}), StatusFenced},
		{&client.Error{Status: 404, Code: "stream_not_found"}, StatusNotFound},
		{&client.Error{Status: 503, Code: "unavailable"}, StatusUnavailable},
		{wrote(&client.Error{Status: 502, Code: "hot_server"}), StatusUnavailable},
		{wrote(&client.Error{Status: 503, Code: "unavailable", Indefinite: true}), StatusUnknown},
		{&client.Error{Status: 429, Code: "rate_limited"}, StatusUnavailable},
		{&client.Error{Status: 403, Code: "permission_denied"}, StatusRefused},
		{&client.RangeError{}, StatusOutOfRange},
		{errInterrupted, StatusInterrupted},
	} {
		if got := Status(test.err); got != test.want {
			t.Errorf("%v has the status %d, want %d", test.err, got, test.want)
		}
		if test.err != nil {
			if got := Status(fmt.Errorf("append to tailrace://b/s: %w", test.err)); got != test.want {
				t.Errorf("%v, wrapped, has the status %d, want %d", test.err, got, test.want)
			}
		}
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
