// Package storetest holds what tests of and on stores share: the conformance suites of coordinator.Heads and
// coordinator.Table, random transitions, and stores that fail on demand.
package storetest
