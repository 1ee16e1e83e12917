// Package cli is the command line of those who use streams: flat verbs, each one call or one flow of the Go client
// ([client]). It knows addresses, how records are written in files, and what each exit status means; nothing of stores.
package cli
