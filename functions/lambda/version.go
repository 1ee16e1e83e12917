package lambda

import "runtime/debug"

// version is what the binary was made from, as far as the Go command knew it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
