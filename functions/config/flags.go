package config

import "github.com/spf13/pflag"

// FileFlag is the flag, and FileVariable the environment variable, that name the file of settings.
const (
	FileFlag     = "config"
	FileVariable = envPrefix + "CONFIG"
)

// AddFlags adds a flag for every setting, and the one for the file. Values are kept as text until Load, so that a bad
// one is reported with all other faults and not alone.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(FileFlag, "", "A YAML file of settings by the names of these flags. (environment "+FileVariable+")")
	for _, entry := range Manual() {
		if entry.secret {
			continue
		}
		flag := flags.VarPF(&text{kind: entry.word, value: entry.Default}, entry.Setting, "",
			entry.Summary+" (environment "+entry.Variable+")")
		if entry.word == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// text is a flag's value as it was written.
type text struct{ kind, value string }

func (t *text) String() string { return t.value }
func (t *text) Type() string   { return t.kind }

func (t *text) Set(value string) error {
	t.value = value
	return nil
}
