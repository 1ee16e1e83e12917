package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSharedStores(t *testing.T) {
	t.Parallel()
	both := []string{"--objects=s3://bucket/a", "--heads=dynamodb://table"}
	for _, test := range []struct {
		name    string
		environ []string
		args    []string
		want    []string // the settings at fault
	}{
		{name: "both", args: both},
		{name: "both by variables", environ: []string{"TAILRACE_OBJECTS=s3://bucket", "TAILRACE_HEADS=dynamodb://table"}},
		{name: "a bucket alone", args: both[:1], want: []string{"heads"}},
		{name: "a table alone", args: both[1:], want: []string{"objects"}},
		{name: "and memory", args: append([]string{"--memory"}, both...), want: []string{"memory"}},
		{name: "and a folder", args: append([]string{"--data=/x"}, both...), want: []string{"data"}},
		{name: "a bucket and a folder", args: []string{"--data=/x", both[0]}, want: []string{"data", "heads"}},
		{name: "everything at once", args: append([]string{"--data=/x", "--memory"}, both...), want: []string{"data", "memory"}},
		{name: "an endpoint and a folder", args: []string{"--s3-endpoint=http://h"}, want: []string{"s3-endpoint"}},
		{
			name: "all that goes with neither",
			args: []string{"--aws-region=r", "--s3-endpoint=http://h", "--s3-region=r", "--s3-addressing=path", "--dynamodb-endpoint=http://h"},
			want: []string{"aws-region", "s3-endpoint", "s3-region", "s3-addressing", "dynamodb-endpoint"},
		},
		{name: "all that goes with both", args: append([]string{"--aws-region=r", "--s3-endpoint=http://h:1/", "--s3-region=r", "--s3-addressing=path", "--dynamodb-endpoint=https://[::1]:1"}, both...)},
		{name: "a bucket alone for both", args: []string{both[0], "--heads=s3://bucket/b"}},
		{name: "names that begin alike", args: []string{both[0], "--heads=s3://bucket/a-heads"}},
		{name: "another bucket", args: []string{both[0], "--heads=s3://bucket2/a"}},
		{name: "the same prefix", args: []string{both[0], "--heads=s3://bucket/a/"}, want: []string{"heads"}},
		{name: "heads among the objects", args: []string{both[0], "--heads=s3://bucket/a/heads"}, want: []string{"heads"}},
		{name: "objects among the heads", args: []string{"--objects=s3://bucket/a/b", "--heads=s3://bucket/a"}, want: []string{"heads"}},
		{name: "heads in all of the bucket", args: []string{both[0], "--heads=s3://bucket"}, want: []string{"heads"}},
		{name: "objects in all of the bucket", args: []string{"--objects=s3://bucket", "--heads=s3://bucket/a"}, want: []string{"heads"}},
		{name: "no table, and its endpoint", args: []string{both[0], "--heads=s3://bucket/b", "--dynamodb-endpoint=http://h"}, want: []string{"dynamodb-endpoint"}},
		// What cannot be read is reported as that, not as missing or as contradicted.
		{name: "unreadable, alone", args: []string{"--objects=bucket"}, want: []string{"objects", "heads"}},
		{name: "unreadable, with the rest", args: []string{"--objects=bucket", "--heads=dynamodb://table", "--s3-endpoint=http://h"}, want: []string{"objects"}},
		{name: "both unreadable", args: []string{"--objects=s3:///p", "--heads=table", "--s3-endpoint=h:1"}, want: []string{"objects", "heads", "s3-endpoint"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := load(t, "", test.environ, test.args...)
			if test.want == nil {
				if err != nil || !cfg.Shared() {
					t.Errorf("load: %+v, %v, want shared stores", cfg, err)
				}
				return
			}
			if got := faultsOf(t, err); !slices.Equal(got, test.want) {
				t.Errorf("faults are in %v, want %v", got, test.want)
			}
		})
	}
}

func TestLoadForTable(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--heads=dynamodb://table":                              "",
		"--heads=dynamodb://table --dynamodb-endpoint=http://h": "",
		"--heads=dynamodb://table --objects=s3://bucket":        "",
		"--objects=s3://bucket":                                 "heads",
		"--heads=s3://bucket/heads":                             "heads",
		"":                                                      "heads",
		"--heads=dynamodb://table --memory":                     "memory",
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		_, err := LoadForTable(flags, nil)
		if want == "" && err != nil || want != "" && !slices.Equal(faultsOf(t, err), []string{want}) {
			t.Errorf("%q: %v, want a fault in %q", args, err, want)
		}
	}
}

func TestURLsOfStores(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for text, want := range map[string]ObjectsURL{
		"": {}, "s3://abc": {"abc", ""}, "s3://abc/": {"abc", ""}, "s3://a.b-c/x": {"a.b-c", "x"},
		"s3://abc/x/Y_1.2-3/": {"abc", "x/Y_1.2-3"}, "s3://" + long: {long, ""},
	} {
		got, err := ParseObjectsURL(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := ParseObjectsURL(got.String()); err != nil || again != want {
			t.Errorf("%+v is written %q, read as %+v, %v", got, got, again, err)
		}
	}
	for _, text := range []string{
		"abc", "s3:abc", "S3://abc", "s3://", "s3:///x", "s3://ab", "s3://Abc", "s3://" + long + "a", "s3://abc//x", "s3://abc/x//y",
		"s3://abc/../x", "s3://abc/x y", "s3://abc?x", "s3://abc/x?y=z", "s3://key:secret@abc", "s3://abc/" + strings.Repeat("a", 201),
		"s3://-abc", "https://abc.s3.amazonaws.com",
	} {
		if got, err := ParseObjectsURL(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
	longest := "s3://abc/" + strings.Repeat("a", 120)
	for _, text := range []string{"dynamodb://abc", "dynamodb://A_b.c-1", "", "s3://abc", "s3://a.b-c/x/Y_1.2-3", longest} {
		if got, err := ParseHeadsURL(text); err != nil || got.String() != text {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"abc", "dynamodb:abc", "dynamodb://", "dynamodb://ab", "dynamodb://a/b", "dynamodb://a b", "s3://ab", "s3://abc//x",
		"s3://abc/../x", "S3://abc", longest + "a"} {
		if got, err := ParseHeadsURL(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
	for _, text := range []string{"h:1", "127.0.0.1:9000", "ftp://h", "http://", "http://u:p@h", "http://h/bucket", "http://h?x=y", "http://h#x", "http://:1"} {
		if got, err := parseEndpoint(text); err == nil {
			t.Errorf("%q is %q, want an error", text, got)
		}
	}
}

func FuzzURLsOfStores(f *testing.F) {
	f.Add("s3://bucket/a/b/")
	f.Add("dynamodb://table")
	f.Add("http://[::1]:9000/")
	f.Fuzz(func(t *testing.T, text string) {
		if u, err := ParseObjectsURL(text); err == nil {
			if again, err := ParseObjectsURL(u.String()); err != nil || again != u {
				t.Errorf("%q is %+v, written %q, read as %+v, %v", text, u, u, again, err)
			}
		}
		if u, err := ParseHeadsURL(text); err == nil {
			if again, err := ParseHeadsURL(u.String()); err != nil || again != u {
				t.Errorf("%q is %+v, written %q, read as %+v, %v", text, u, u, again, err)
			}
		}
		if e, err := parseEndpoint(text); err == nil {
			if again, err := parseEndpoint(string(e)); err != nil || again != e {
				t.Errorf("%q is %q, read as %q, %v", text, e, again, err)
			}
		}
	})
}
