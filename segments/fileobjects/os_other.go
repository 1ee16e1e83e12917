//go:build !unix

package fileobjects

import "os"

const openFlags = 0

// syncDir does nothing: these systems cannot flush a folder through an ordinary handle. NTFS journals names by itself,
// but when is its own affair, so here a crash of the machine may lose what was acknowledged (README, assumptions).
func syncDir(*os.File) error { return nil }

// full knows no error of these systems: a full disk is a failure like any other there.
func full(error) bool { return false }
