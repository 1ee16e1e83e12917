// Package tenancy keeps the names: basins, the directory of their streams, and the whole life of both, on a
// coordinator.Table for the rows and coordinator.Heads for the streams themselves. README.md tells the life of a
// creation and of a deletion and lists every key.
//
// Callers validate names and decode requests; the package decides what exists. All methods of a Directory may be
// called at once, from any number of processes over one table.
package tenancy
