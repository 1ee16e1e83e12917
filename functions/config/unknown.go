package config

import (
	"regexp"
	"slices"
	"strings"
)

// The variables of the command line. A server may be started beside it with the same environment, and does not read them.
const (
	EndpointVariable      = envPrefix + "ENDPOINT"
	AccessTokenVariable   = envPrefix + "ACCESS_TOKEN"
	EncryptionKeyVariable = envPrefix + "ENCRYPTION_KEY"
	CAFileVariable        = envPrefix + "CA_FILE"
)

var clientVariables = []string{EndpointVariable, AccessTokenVariable, EncryptionKeyVariable, CAFileVariable}

// toolVariables are the variables with our prefix that the tests and tools of this repository read. They may stand in the
// environment of a server started by hand beside them; a test holds the list against the sources.
var toolVariables = []string{
	"BIN", "CACHE", "CONTENTION", "COUNTED_APPENDS", "CURL", "DYNALITE", "DYNAMODB_DYNALITE", "FAULTS_ALL", "GOTESTSUM", "LEFT_OUT",
	"MINIO", "MISBEHAVE_SECONDS", "NODE", "NODE_DIR", "RACE_ROUNDS", "REQUIRE", "S2_CLI", "S2_LITE", "S3_BUCKET", "S3_MINIO", "S3_OTHER", "S3_VERSITYGW",
	"SCALE", "STATICCHECK", "STRACE",
	"VERSITYGW", "VISIBLE_ROUNDS",
	"LAMBDA_RIE", "TERRAFORM", "TFLINT",
}

// toolPrefixes begin the names of more of them.
var toolPrefixes = []string{"E2E_", "SCALE_", "TEST_"}

// Kubernetes gives every container variables for each service of its namespace: a service named tailrace, or tailrace-x,
// makes these. Of NAME_PORT the value tells it from what somebody may have meant as a setting.
var (
	serviceVariable = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	portVariable    = regexp.MustCompile(`(^|_)PORT$`)
	serviceURL      = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// unknownVariables has a fault for each variable of ours that is no setting: a misspelt one would be without effect, and
// the server open, or without the data that it was to serve. Those of tools and of Kubernetes are left alone. What an
// unknown variable holds is not shown, since it may be a secret under a wrong name.
func unknownVariables(environ []string) (faults Faults) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || foreign(rest, value) || slices.Contains(clientVariables, name) || slices.Contains(variableNames(), name) {
			continue
		}
		faults = append(faults, Fault{
			Setting: name, Value: hidden, Origin: "environment", Problem: "is not a setting",
			Remedy: remedyForUnknown(name, variableNames()),
		})
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Setting, b.Setting) })
	return slices.CompactFunc(faults, func(a, b Fault) bool { return a.Setting == b.Setting })
}

// hidden stands for a value that is not shown.
const hidden = "(not shown)"

// foreign reports whether a variable, without its prefix, belongs to others.
func foreign(rest, value string) bool {
	return slices.Contains(toolVariables, rest) || serviceVariable.MatchString(rest) ||
		portVariable.MatchString(rest) && serviceURL.MatchString(value) ||
		slices.ContainsFunc(toolPrefixes, func(prefix string) bool { return strings.HasPrefix(rest, prefix) })
}

// remedyForUnknown points at the one of the names that was probably meant: the nearest, unless more than a third of it would
// have to change.
func remedyForUnknown(name string, names []string) string {
	best, distance := "", len(name)
	for _, n := range names {
		if d := editDistance(letters(name), letters(n)); d < distance {
			best, distance = n, d
		}
	}
	if 3*distance > len(letters(best)) {
		return "remove it, or see docs/configuration.md for the names"
	}
	return "write " + best
}

// keyNames and variableNames are what a setting is called in the file and in the environment.
func keyNames() (names []string) {
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

func variableNames() []string {
	names := []string{FileVariable}
	for _, s := range settings {
		names = append(names, s.variable)
	}
	return names
}

// letters is a name without its prefix and without what separates words, in which names are most often misspelt.
func letters(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(strings.TrimPrefix(name, envPrefix)))
}

// editDistance counts the bytes to insert, delete or replace to make a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
