// Package client is the Go client of Tailrace, and of every server that speaks the S2 v1 API for what the two share.
//
// A [Client] knows an endpoint and a token. From it come handles, which are cheap, immutable and safe for use by many
// goroutines at once: [Client.Basin], [Basin.Stream]. A handle makes no request by itself. Its With and Presenting methods
// give other views of the same basin or stream:
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	orders := c.Basin("my-first-basin").Stream("orders")
//	ack, err := orders.Append(ctx, client.Text("one tea"))
//	for record, err := range orders.Follow(ctx, client.ReadOptions{}) { ... }
//
// # What an error says
//
// Every failure of a write is definite (nothing was changed, now or later) or indefinite (it may have been), and
// [Indefinite] tells which. What a caller does differently has a type or a sentinel: [SequenceError] for a missed
// condition, [FenceError] and [ErrFenced] for a writer that was replaced, [RangeError] for a read beyond the tail,
// [ErrNotFound], [ErrRateLimited], [ErrUnavailable] and more.
//
// # What is sent again
//
// Requests that change nothing, or that have the same effect twice as once, are sent again after failures that may pass,
// with jittered back-off that honours the server's retry-after-ms. Appends are sent again as the caller chose by
// [AppendRetry]; [Stream.AppendMatch] never is. The context bounds everything.
package client
