package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary was made from, as far as the Go command knew it.
func build() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return cmp.Or(info.Main.Version, "(devel)"), commit
}

func (p *process) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and that of the data folder it reads",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			version, commit := build()
			if commit != "" {
				version += " commit " + commit
			}
			_, err := fmt.Fprintf(p.stdout, "tailrace %s, data folder format %d, %s %s/%s\n",
				version, dataFormat, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
