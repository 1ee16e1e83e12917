package config

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	// Setting is the name of the setting, or of the file that could not be read.
	Setting string
	// Value is what was given, as text; Origin where: "--flag", "environment VARIABLE", "file PATH" or "default".
	Value, Origin string
	// Problem says what is wrong with the value, Remedy what to do about it.
	Problem, Remedy string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s = %q (%s) %s; %s", f.Setting, f.Value, f.Origin, f.Problem, f.Remedy)
}

// Faults is the error of Load: everything that is wrong, in the order of the settings.
type Faults []Fault

// Error has one line for each fault, after a first line that counts them.
func (f Faults) Error() string {
	var text strings.Builder
	switch len(f) {
	case 1:
		text.WriteString("the configuration has a fault:")
	default:
		fmt.Fprintf(&text, "the configuration has %d faults:", len(f))
	}
	for _, fault := range f {
		text.WriteString("\n  " + fault.String())
	}
	return text.String()
}
