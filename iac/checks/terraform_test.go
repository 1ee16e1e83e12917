package checks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/iac/provider/schema"
)

// terraformVariable names terraform; without it, PATH does.
const terraformVariable = "TAILRACE_TERRAFORM"

// folders are the modules and deployments, and which of them have tests.
var folders = map[string]bool{
	"modules/service": true, "modules/basin": true, "live/small": false, "live/production": false, "live/localstack": false,
}

// workshop is a copy of the configurations in which terraform runs, with a provider that serves schemas and nothing else.
type workshop struct{ terraform, dir, rc string }

// leaveOut ends a test that this machine cannot run: by name where that is allowed, as a failure where it is not.
func leaveOut(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("TAILRACE_REQUIRE") == "all" {
		t.Fatalf("left out: %s, and TAILRACE_REQUIRE=all allows nothing to be", reason)
	}
	t.Skip("left out: " + reason)
}

func newWorkshop(t *testing.T) workshop {
	t.Helper()
	bin := os.Getenv(terraformVariable)
	if bin == "" {
		found, err := exec.LookPath("terraform")
		if err != nil {
			leaveOut(t, "terraform is not installed")
		}
		bin = found
	}
	w := workshop{terraform: bin, dir: t.TempDir()}
	for _, tree := range []string{"modules", "live"} {
		if err := os.CopyFS(filepath.Join(w.dir, tree), os.DirFS(filepath.Join("..", tree))); err != nil {
			t.Fatal(err)
		}
	}
	w.rc = w.mirror(t)
	return w
}

// mirror builds the provider into a folder where terraform init finds it, and returns the file that says so.
func (w workshop) mirror(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	version := servedVersion(t)
	dir := filepath.Join(root, "registry.terraform.io", "hashicorp", "aws", version, runtime.GOOS+"_"+runtime.GOARCH)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "terraform-provider-aws_v"+version), "../provider")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build provider: %v\n%s", err, out)
	}
	rc := filepath.Join(root, "terraform.rc")
	text := "provider_installation {\n  filesystem_mirror {\n    path = \"" + filepath.ToSlash(root) + "\"\n  }\n}\n"
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return rc
}

// servedVersion is that of the schema that the provider serves.
func servedVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../provider/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var p schema.Provider
	if err := json.Unmarshal(text, &p); err != nil || p.Version == "" {
		t.Fatalf("the schema's version is %q, %v", p.Version, err)
	}
	return p.Version
}

// run runs terraform in a folder.
func (w workshop) run(folder string, args ...string) (string, error) {
	cmd := exec.Command(w.terraform, append([]string{"-chdir=" + filepath.Join(w.dir, folder)}, args...)...)
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+w.rc, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w workshop) must(t *testing.T, folder string, args ...string) {
	t.Helper()
	if out, err := w.run(folder, args...); err != nil {
		t.Fatalf("terraform %s in %s: %v\n%s", strings.Join(args, " "), folder, err, out)
	}
}

func (w workshop) initialize(t *testing.T, folder string) {
	t.Helper()
	w.must(t, folder, "init", "-backend=false", "-input=false", "-no-color")
}

// Every configuration is formatted, valid against the real provider's schema, and does what its tests say.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.must(t, ".", "fmt", "-check", "-diff", "-recursive")
	for folder, tested := range folders {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			w.initialize(t, folder)
			w.must(t, folder, "validate", "-no-color")
			if tested {
				w.must(t, folder, "test", "-no-color")
			}
		})
	}
}

// What is wrong is found: a misspelt argument, a wrong type, a block or an argument that is missing. Each is planted into a
// module that is right.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.initialize(t, "modules/service")
	planted := filepath.Join(w.dir, "modules/service/planted.tf")
	for name, c := range map[string]struct{ config, want string }{
		"a misspelt argument": {`resource "aws_s3_bucket" "planted" {
			bukket = "b"
		}`, "Unsupported argument"},
		"a misspelt block": {`resource "aws_dynamodb_table" "planted" {
			name = "t"
			point_in_time_recover {
				enabled = true
			}
		}`, "Unsupported block type"},
		"a wrong type": {`resource "aws_lambda_function" "planted" {
			function_name = "f"
			role          = "r"
			timeout       = "soon"
		}`, "a number is required"},
		"a list for a text": {`resource "aws_s3_bucket" "planted" {
			bucket = ["b"]
		}`, "string required"},
		"a missing argument": {`resource "aws_lambda_permission" "planted" {
			action        = "lambda:InvokeFunction"
			function_name = "f"
		}`, "Missing required argument"},
		"two of a block that stands once": {`resource "aws_lambda_function" "planted" {
			function_name = "f"
			role          = "r"
			environment {}
			environment {}
		}`, "Too many environment blocks"},
		"a resource that there is not": {`resource "aws_s3_buckets" "planted" {}`, "Invalid resource type"},
		"an attribute that there is not": {`output "planted" {
			value = aws_s3_bucket.records.colour
		}`, "Unsupported attribute"},
	} {
		if err := os.WriteFile(planted, []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := w.run("modules/service", "validate", "-no-color"); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: want %q, got %v\n%s", name, c.want, err, out)
		}
	}
}

// tflint's own rules, with every variable and output described and typed, and nothing declared that is not used.
func TestLint(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("TAILRACE_TFLINT")
	if bin == "" {
		leaveOut(t, "tflint is not set up (tools/setup tflint)")
	}
	config, err := filepath.Abs("tflint.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for folder := range folders {
		cmd := exec.Command(bin, "--config="+config, "--chdir="+filepath.Join("..", filepath.FromSlash(folder)), "--call-module-type=none")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}
