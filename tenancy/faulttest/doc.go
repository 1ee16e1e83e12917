// Package faulttest breaks every call to a store that an operation makes, in every way a call can break, on every pair of
// stores, and reads everything back. It has tests alone; README.md tells how they are laid out.
package faulttest
